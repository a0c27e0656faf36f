"""Facts about clients: the traffic of each client, requests that Muster does not support, and
failures to connect."""
