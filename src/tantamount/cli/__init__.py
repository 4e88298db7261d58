"""The command line (click). May import every part; nothing imports it. The only place that writes to the terminal."""

from tantamount.memory import limited, reserve

if limited():
    reserve()  # before anything else imports NumPy
