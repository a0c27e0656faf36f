"""`muster transactions`: what is open, what it holds back, and why it ended."""
