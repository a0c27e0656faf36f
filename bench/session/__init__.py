"""Measures a session of tests on Muster and on Apache Kafka."""
