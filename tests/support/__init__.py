"""What several tests share. ``tests`` is on the import path: ``from support.reports import proved``."""
