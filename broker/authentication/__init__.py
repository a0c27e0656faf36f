"""Authentication of clients: SASL logins, users, delegation tokens and bearer tokens.

Where to change:

- what a connection may send before its login, and the cost of a failed login:
  `broker/authentication/login_protocol.py`, `guesses.py`, `logins.py`. Then
  `tests/broker/authentication/test_traps.py`,
  `tests/broker/authentication/test_held_back_logins.py`.
- the end of a login: `broker/authentication/session.py`. Then
  `tests/broker/authentication/test_renewal.py`.
"""
