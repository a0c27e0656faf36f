"""Logins: the server's side of each SASL mechanism, and the conversation around it."""
