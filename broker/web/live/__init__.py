"""Live events: the watched rows and their changes."""
