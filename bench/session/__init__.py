"""Measures a session of 100 pytest tests on Muster and on Apache Kafka."""
