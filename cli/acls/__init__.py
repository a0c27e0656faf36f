"""`muster acls`: the ACLs of a running broker or in the data directory of a stopped broker."""
