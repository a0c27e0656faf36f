"""The hosted cores of groups."""
