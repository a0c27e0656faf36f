"""What runs the tables' SQL: DuckDB for what one machine holds, Spark for more."""
