"""The edge: sockets, clocks, configuration, metrics and the turn."""
