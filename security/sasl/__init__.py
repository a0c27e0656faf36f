"""SASL logins: the client and the server of each mechanism, and the server's exchange of
messages."""
