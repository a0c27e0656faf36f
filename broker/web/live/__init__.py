"""Live events: the rows that clients watch, and the changes of these rows."""
