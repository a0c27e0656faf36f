"""A blocking Kafka client over protocol/, with TLS and SASL: for cli/ and pipeline/.

Where to change:

- a property of `--command-config`: `client/settings.py` reads it, `client/security.py` and
  `client/connection.py` apply it. Then docs/use/command-line.md, `tests/client`.
"""
