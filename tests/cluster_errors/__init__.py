"""Requests to the brokers of a cluster, and the error codes of their responses."""
