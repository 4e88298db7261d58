"""Reports as text and as JSON, from plain data. May import errors, limits, ir and verdict; imported by cli only."""
