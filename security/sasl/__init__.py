"""Logins: both sides of each SASL mechanism, and the conversation around the server's."""
