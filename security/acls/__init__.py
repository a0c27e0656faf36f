"""Access control lists: their entries, an index of the entries, and the authorization decision."""
