"""The tables as SQL for every engine. Each function returns the text of one query."""
