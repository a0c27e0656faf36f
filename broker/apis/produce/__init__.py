"""The Produce API: the handler, the append of records, transactions, and the response."""
