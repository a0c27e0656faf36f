"""`muster configs` and `muster config`."""
