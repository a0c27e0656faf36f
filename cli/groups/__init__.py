"""`muster groups`: commands for groups."""
