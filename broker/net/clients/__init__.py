"""Facts about clients: their traffic, and their unsupported requests."""
