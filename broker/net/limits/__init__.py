"""Limits of connections: their number, their rate, and their throttling."""
