"""`muster cluster`: the brokers of any Kafka cluster, who leads what and why, and what is wrong."""
