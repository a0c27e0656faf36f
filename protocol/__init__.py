"""Bytes to values and back: Kafka's messages, records, frames and error codes."""
