"""Cleaning a compacted log, in the cleaner's own process."""
