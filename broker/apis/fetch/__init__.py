"""Fetch: the handler, its sessions, what it reads and how it answers."""
