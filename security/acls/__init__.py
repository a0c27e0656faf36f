"""Access control lists: the entries, their index, and the decision by the entries."""
