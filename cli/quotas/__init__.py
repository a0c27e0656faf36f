"""`muster quotas`: what clients and addresses may use, with any Kafka broker."""
