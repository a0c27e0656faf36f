"""A blocking Kafka client over protocol/, with TLS and SASL: for cli/ and pipeline/."""
