"""The time of a session of tests on Muster and on Apache Kafka."""
