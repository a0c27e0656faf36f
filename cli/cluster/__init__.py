"""`muster cluster`: shows the brokers of any Kafka cluster, explains why leaders moved, finds
problems."""
