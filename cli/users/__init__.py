"""`muster users`: users who log in by SCRAM."""
