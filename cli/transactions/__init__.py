"""`muster transactions`: open transactions, the consumers they block, and why they ended."""
