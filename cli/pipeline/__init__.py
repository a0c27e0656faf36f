"""`muster pipeline`: commands that run the jobs of `pipeline/`."""
