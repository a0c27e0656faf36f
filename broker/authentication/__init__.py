"""Authentication of clients: SASL logins, users, delegation tokens and bearer tokens."""
