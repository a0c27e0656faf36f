"""Kafka's messages, records, frames and error codes: decoding and encoding.

Where to change:

- the data of a ZooKeeper node: `protocol/znodes/`. Then `tests/protocol/test_znodes.py`.
- the generated codec of a frequent API: `tools/codec_shapes.py`. Then `make codecs`.
"""
