"""`muster transactions`: shows and aborts transactions, and shows the consumers that transactions
block."""
