"""Cleans a compacted log, in a cleaner process of its own."""
