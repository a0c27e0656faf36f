"""A blocking Kafka client, and the requests of commands to any broker."""
