"""`muster users`: who may log in by SCRAM."""
