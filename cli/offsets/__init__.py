"""`muster offsets`."""
