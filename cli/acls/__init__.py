"""`muster acls`: commands on the ACLs of a running broker, or on the ACLs in the data directory of
a stopped broker."""
