"""The command line (click). May import every part; nothing imports it. The only place that writes to the terminal."""
