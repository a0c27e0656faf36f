"""`muster cluster`: the brokers of any Kafka cluster, leaders and their reasons, and problems."""
