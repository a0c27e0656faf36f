"""The columns of the history and of every table."""
