"""The SQL queries that make the pipeline's tables, in the dialect of each engine. Each function
returns the text of one query."""
