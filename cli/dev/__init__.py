"""`muster dev`: runs a cluster for a trial."""
