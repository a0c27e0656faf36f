"""Reads the history of a running cluster (Muster or Apache Kafka) with Kafka's protocol."""
