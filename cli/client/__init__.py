"""A blocking Kafka client, and the requests that commands send to any broker."""
