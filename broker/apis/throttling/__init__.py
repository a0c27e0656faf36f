"""Quotas of clients at work: what a request has used, what its answer says, and the waiting."""
