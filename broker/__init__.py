"""The broker process: sockets, clocks, configuration, metrics and the event loop's turns.

Where to change:

- how brokers connect to each other: `broker/cluster_connections.py`,
  `broker/cluster/peers/secured_peer.py`. Then `tests/broker/test_cluster_connections.py`,
  `tests/broker/cluster/test_secured_members.py`.
"""
