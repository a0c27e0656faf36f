"""Connections from this broker to other brokers, and the version of each request."""
