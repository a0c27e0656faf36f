"""Where the history is read: from a broker at the wire, or from the files of a log."""
