"""The tables as SQL for every engine: each function returns the text of one query."""
