"""SASL logins: the client's and the server's side of each mechanism, and the server's exchange of
messages."""
