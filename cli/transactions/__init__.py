"""`muster transactions`: shows and aborts transactions, and shows the consumers they block."""
