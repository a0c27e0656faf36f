"""Markers: the control batches that end a producer's transaction in a partition.

`encode_end_transaction` (batch.py) writes them. The record's key holds a version and what the
marker says, its value a version and the coordinator epoch.
"""

from __future__ import annotations

import struct

from protocol.buffer import Buffer
from protocol.records.batch import ABORT, COMMIT, BatchHeader, records_of

_KEY = struct.Struct(">hh")
_VALUE = struct.Struct(">hi")


def transaction_end(buffer: Buffer, header: BatchHeader) -> tuple[bool, int] | None:
    """Whether a control batch says COMMIT, and its coordinator epoch; None where it ends nothing.

    A cleaner may have left no record, and there are control records of other types. A value without
    an epoch gives -1. Raises CorruptRecords.
    """
    records = records_of(buffer, header)
    key = records[0].key if records else None
    if key is None or len(key) < _KEY.size:
        return None
    outcome = _KEY.unpack_from(key)[1]
    if outcome not in (ABORT, COMMIT):
        return None
    value = records[0].value or b""
    epoch = _VALUE.unpack_from(value)[1] if len(value) >= _VALUE.size else -1
    return outcome == COMMIT, epoch
