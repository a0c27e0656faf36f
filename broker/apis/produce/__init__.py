"""Produce: the handler and its answer."""
