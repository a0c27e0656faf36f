"""Kafka's nodes in ZooKeeper: their paths, and JSON to values and back; one module per family.

Readers take what Kafka 0.8.2 to 3.9 wrote, ignore keys that they don't know, and raise `BadNode`
for what does not parse. Every number that is written fits 32 bits, and whatever may not is a
string: Kafka 0.10.2 can read no node with a larger number. A rewrite keeps what it can't name.
"""
