"""Journals, pure: what is kept of what happened, how much of it, and how it is written down."""
