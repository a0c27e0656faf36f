"""Where tables are kept: folders here and on object storage, in several formats, and archives."""
