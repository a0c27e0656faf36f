"""The engines that run the tables' SQL: DuckDB for one machine, Spark for more data."""
