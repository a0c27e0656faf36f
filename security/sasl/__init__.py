"""Logins: both sides of each SASL mechanism, and the server's exchange around it."""
