"""The tables as SQL, one definition for every engine. A function gives the text of one query."""
