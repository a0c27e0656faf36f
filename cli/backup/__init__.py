"""`muster backup`: a cluster's topics, settings and committed offsets in one file, and back."""
