"""Sockets and requests: the server, its connections, dispatch, and replies in the order of their
requests.

Where to change:

- TLS of a listener: in `broker/net/tls/`, `settings.py` reads settings, `context.py` validates,
  `certificates.py` reloads and warns, `layer.py` encrypts, `handshakes.py` schedules handshakes.
  Then `tests/broker/net/tls`.
- the limits of connections: in `broker/net/limits/`, `listener_rates.py` limits the rate per
  listener, `address_rates.py` the rate per address, `connections.py` the number of connections,
  and `overrides.py` the number of connections from particular addresses. Then
  `tests/broker/net/limits/test_limits_of_listeners.py`,
  `tests/broker/net/limits/test_address_rates.py`.
"""
