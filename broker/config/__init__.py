"""Kafka's properties: their table, their values, their sources, and changes at run time.

Where to change:

- which unprotected settings prevent a start: `broker/config/protection.py`, `listener_rules.py`,
  `secured_listener_rules.py`, `authorizer_rules.py`, `http_settings.py`. Then
  `tests/broker/config`.
"""
