"""The cleaning of a compacted log, in the cleaner's own process."""
