"""The log on disk: segments, indexes, recovery; the file system is an argument."""
