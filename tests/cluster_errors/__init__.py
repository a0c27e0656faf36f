"""Requests to the brokers of a cluster, and the error codes that Kafka and Muster return."""
