"""The history of a running cluster, Muster's or Apache Kafka's, by Kafka's own protocol."""
