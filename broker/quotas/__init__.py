"""Quotas: how much is counted, and when it is too much."""
