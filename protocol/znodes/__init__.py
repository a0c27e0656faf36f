"""Kafka's nodes in ZooKeeper: their paths, and the decoding and encoding of their JSON; one module
per family.

Readers accept data of Kafka 0.8.2 to 3.9, ignore unknown keys, and raise `BadNode` for invalid
data. Every written number fits 32 bits, and a value that may not is a string: Kafka 0.10.2 can't
read nodes with larger numbers. A rewrite keeps unknown fields.
"""
