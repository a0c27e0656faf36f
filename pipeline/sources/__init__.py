"""Sources of the history: a broker over the network, or files."""
