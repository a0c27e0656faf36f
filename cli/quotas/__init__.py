"""`muster quotas`: quotas of users, client ids and addresses, in any Kafka cluster."""
