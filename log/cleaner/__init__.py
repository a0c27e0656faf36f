"""Cleans a compacted log, in a separate cleaner process."""
