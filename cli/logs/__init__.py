"""`muster logs`: shows files of a log directory."""
