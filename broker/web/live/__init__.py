"""Live events: the rows that clients watch, and their changes."""
