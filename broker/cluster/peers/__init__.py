"""Other brokers: connections to them, and which request goes in which version."""
