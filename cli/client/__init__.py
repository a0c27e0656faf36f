"""A blocking Kafka client, and what commands ask of any broker through it."""
