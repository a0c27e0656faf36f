"""`muster dev`: commands for a trial."""
