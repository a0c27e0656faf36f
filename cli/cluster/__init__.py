"""`muster cluster`: the brokers of any Kafka cluster, who leads what, and what is wrong."""
