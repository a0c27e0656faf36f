"""Readers of the HTTP side: their authentication and their rights."""
