"""Access control lists: their entries, the index of the entries, and the decision by the
entries."""
