"""A blocking Kafka client, and the requests that commands can send to a broker of Muster or of
Apache Kafka."""
