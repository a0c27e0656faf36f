"""Kafka's nodes in ZooKeeper: their paths, and decoding and encoding of their JSON. Each family of
nodes has its own module.

Readers accept data of Kafka 0.8.2 to 3.9, ignore unknown keys, and raise `BadNode` for invalid
data. Every written number fits in 32 bits. A value that may be larger is written as a string,
because Kafka 0.10.2 can't read nodes with larger numbers. Rewriting a node keeps its unknown
fields.
"""
