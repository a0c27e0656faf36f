"""Quotas: whose they are, how much is used, and how long somebody over one has to wait."""
