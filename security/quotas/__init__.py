"""Quotas: which quota applies to a client, how much of it is used, and the throttle time."""
