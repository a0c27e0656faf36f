"""Produce: the handler and its response."""
