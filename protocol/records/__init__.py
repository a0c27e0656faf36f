"""Records: message sets of magic 0 and 1, batches of magic 2, compression and checksums."""
