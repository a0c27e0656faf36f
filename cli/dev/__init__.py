"""`muster dev`: runs a cluster on this machine for a trial."""
