"""The cleaning of a compacted log, in a separate cleaner process."""
