"""`muster groups`."""
