"""Facts about clients: the traffic of each client, and its unsupported requests."""
