"""Offset values without metadata and expiry, as nearly all records of an offsets log have them.

+---------+--------+--------------+-----------------+------------------+----------------------+
| version | offset | leader epoch | metadata length | commit timestamp |                      |
| 00 03   | int64  | int32        | 00 00           | int64            |                      |
| 00 04   | int64  | int32        | 01              | int64            | 00: no tagged field, |
|         |        |              |                 |                  | or the topic's id    |
+---------+--------+--------------+-----------------+------------------+----------------------+
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

OFFSET_AT: Final = 2
EPOCH_AT: Final = 10
OFFSET_AND_EPOCH_BYTES: Final = 12
TIMESTAMP_BYTES: Final = 8
TOPIC_ID_BYTES: Final = 16
_METADATA_AT = 14
_TOPIC_ID_TAG = b"\1\0\x10"  # one tag, 0, of 16 bytes


class Layout(NamedTuple):
    """The positions of the fields in an offset value without metadata and expiry. ``numbers``
    unpacks the offset, the leader epoch and the commit timestamp."""

    version: int
    size: int
    timestamp_at: int
    numbers: struct.Struct
    topic_id_at: int | None = None


_V3 = Layout(3, 24, 16, struct.Struct(">2xqi2xq"))
_V4 = Layout(4, 24, 15, struct.Struct(">2xqixq"))
_V4_WITH_TOPIC = _V4._replace(size=42, topic_id_at=26)


def layout_of(value: bytes) -> Layout | None:
    """Returns the layout of an offset value; None if the value has metadata, an expiry or unknown
    fields."""
    head = value[:2]
    if head == b"\0\3":
        return _V3 if len(value) == _V3.size and value[_METADATA_AT:16] == b"\0\0" else None
    if head != b"\0\4" or value[_METADATA_AT:15] != b"\1":
        return None
    if len(value) == _V4.size:
        return None if value[23] else _V4
    if len(value) == _V4_WITH_TOPIC.size and value[23:26] == _TOPIC_ID_TAG:
        return _V4_WITH_TOPIC
    return None
