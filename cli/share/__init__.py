"""`muster share`: describes share groups, and explains which member got which record."""
