"""The plain offset record, byte by byte: a committed offset without metadata, expiry and headers.

Nearly all records of an offsets log are plain, so many of them are written and read at once, by the
positions of their bytes. The positions after the head of the key are fixed if they are counted from
the record's end:

       prologue                                              head of the key
    +----------+------------+-----------------+--------------+------------+-------+-------+
    | length   | attributes | timestamp delta | offset delta | key length | group | topic |
    | varint   | 00         | 00              | varint       | varint,    | int16 | int16 |
    |          |            |                 |              | type 00 01 | UTF-8 | UTF-8 |
    +----------+------------+-----------------+--------------+------------+-------+-------+

      -30         -26            -23        -15            -11               -9           -1
    +-----------+--------------+----------+--------------+-----------------+------------+---------+
    | partition | value length | offset   | leader epoch | metadata length | commit     | header  |
    | int32     | 24: 30       | int64    | int32        | int16: 00 00    | timestamp  | count   |
    |           | version 3:   |          |              |                 | int64      | 00      |
    |           | 00 03        |          |              |                 |            |         |
    +-----------+--------------+----------+--------------+-----------------+------------+---------+
                                                         |<------------- tail --------------->|

Records of one commit differ only in offset delta, partition, offset and epoch.
"""

from __future__ import annotations

import struct

VALUE_HEAD = b"\x30\x00\x03"
"""The length of the value, 24 as a varint, and the version of the value."""
NO_METADATA = b"\0\0"

END_BYTES = 30
"""The number of bytes at the end of a plain record, from the partition on. The partition is the
last field of the record's key. The constants that follow are positions, counted from the end of the
record."""
VALUE_HEAD_FROM_END = 26
OFFSET_FROM_END = 23
EPOCH_FROM_END = 15
TAIL_BYTES = 11
"""The number of bytes at the end of a plain record, from the length of the metadata on."""
TIMESTAMP_FROM_END = 9
VALUE_BYTES = 24

END = struct.Struct(">i3xqi2xqx")
"""Unpacks partition, offset, leader epoch and commit timestamp from the last END_BYTES bytes of a
plain record (an offset without metadata and expiry)."""
PARTITION_BYTES = 4
