"""`muster quotas`: limits of clients and addresses, with any Kafka broker."""
