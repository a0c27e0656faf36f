"""`muster configs`: settings of a running cluster. `muster config`: settings in a file."""
