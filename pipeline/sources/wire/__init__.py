"""The history of a running cluster (Muster or Apache Kafka), read by Kafka's protocol."""
