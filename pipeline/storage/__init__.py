"""Storage of tables: local folders and object storage, in several formats, and archives."""
