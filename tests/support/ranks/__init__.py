"""Programs of four ranks, run by real processes and captured: every kind of hook and of state, every collective."""
