"""`muster acls`: access control lists of a broker, or in the data directory of a stopped one."""
