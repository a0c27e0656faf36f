"""`muster offsets`: commands for committed offsets."""
