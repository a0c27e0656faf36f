"""Limits of connections: their number, the rate of new connections, and their throttling."""
