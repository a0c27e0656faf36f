"""Sockets and requests: the server, its connections, dispatch, and replies in their order.

Where to change:

- TLS of a listener: `broker/net/tls/`: `settings.py` reads, `context.py` validates,
  `certificates.py` reloads and warns, `layer.py` encrypts, `handshakes.py` orders the handshakes.
  Then `tests/broker/net/tls`.
- the rate of new connections: `broker/net/limits/listener_rates.py` by listener,
  `address_rates.py` by address, `connections.py` their number, `overrides.py` from single
  addresses. Then `tests/broker/net/limits/test_limits_of_listeners.py`,
  `tests/broker/net/limits/test_address_rates.py`.
"""
