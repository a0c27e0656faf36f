"""Kafka's nodes in ZooKeeper: paths, and the decoding and encoding of the JSON; one module per
family of nodes.

Readers accept data of Kafka 0.8.2 to 3.9, ignore unknown keys, and raise `BadNode` for invalid
data. Every written number fits in 32 bits; a value that may be larger is written as a string,
because Kafka 0.10.2 can't read nodes with larger numbers. A rewrite keeps unknown fields.
"""
