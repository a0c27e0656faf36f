"""Access control lists: the entries, where they are looked up, and the judgement over them."""
