"""ShareFetch: the handler, its reads of the log and its response."""
