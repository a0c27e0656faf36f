"""Kafka's messages, records, frames and error codes: decoding and encoding.

Where to change:

- a node of ZooKeeper: `protocol/znodes/`. Then `tests/protocol/test_znodes.py`.
- a fast codec of a hot API: `tools/codec_shapes.py`. Then `make codecs`.
"""
