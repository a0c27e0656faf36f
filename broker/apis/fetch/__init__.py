"""Fetch: the handler, its sessions, its reads and its response."""
