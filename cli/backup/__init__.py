"""`muster backup`: save topics, settings and committed offsets to a file, and restore them."""
