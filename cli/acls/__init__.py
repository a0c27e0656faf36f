"""`muster acls`: commands for the ACLs of a running broker, or for the ACLs in the data directory
of a stopped broker."""
