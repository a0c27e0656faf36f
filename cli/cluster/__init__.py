"""`muster cluster`: shows the brokers of any Kafka cluster, explains leaders, finds problems."""
