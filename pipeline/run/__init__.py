"""Jobs: the tables, the queries that make them, and the runs."""
