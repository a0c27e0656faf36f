"""`muster pipeline`."""
