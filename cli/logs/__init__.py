"""`muster logs`."""
