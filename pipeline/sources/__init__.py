"""Sources of the history: a broker over the wire, or the files of a log."""
