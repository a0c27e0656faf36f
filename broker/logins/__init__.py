"""Logins: SASL on a connection before and after it is let in, and the users who may log in."""
