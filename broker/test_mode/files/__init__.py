"""The files of a broker in test mode, in memory or in a directory, and faults of the disk."""
