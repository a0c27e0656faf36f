"""Connections to other brokers, and the version of each request."""
