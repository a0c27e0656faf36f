"""Readers of the HTTP pages and the API: their authentication and their rights."""
