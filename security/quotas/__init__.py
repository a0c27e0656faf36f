"""Quotas: determines the quota that applies to a client, its current use, and the throttle time."""
