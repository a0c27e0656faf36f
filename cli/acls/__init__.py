"""`muster acls`: who may do what, at a broker or in the directory of one that is stopped."""
