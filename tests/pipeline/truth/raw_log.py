"""Counts records of `__consumer_offsets` directly from segment files, without the pipeline."""

from __future__ import annotations

from pathlib import Path

from protocol.records.batch import COMMIT, records_of
from protocol.records.stored import iter_stored

Counts = dict[str, int]
AROUND = 9
"""The number of bytes that a small record has in addition to its key and value."""


def counted(folder: Path) -> Counts:
    """Returns the counts of one partition: all records, and the records that a log cleaner would
    remove."""
    keyed: dict[bytes, list[tuple[int, bool]]] = {}
    unended: dict[int, list[tuple[bytes, int, bool]]] = {}
    records = size = aborted = markers = 0
    for file in sorted(folder.glob("*.log")):
        data = file.read_bytes()
        for header, _ in iter_stored(data, partial=True):
            for record in records_of(data, header):
                key = record.key or b""
                if header.is_control:
                    ended = unended.pop(header.producer_id, [])
                    if key[2:4] == COMMIT.to_bytes(2, "big"):
                        for name, offset, gone in ended:
                            keyed.setdefault(name, []).append((offset, gone))
                    else:
                        aborted += len(ended)
                    markers += 1
                    continue
                records += 1
                size += AROUND + len(key) + len(record.value or b"")
                row = record.offset, record.value is None
                if header.is_transactional:
                    unended.setdefault(header.producer_id, []).append((key, *row))
                else:
                    keyed.setdefault(key, []).append(row)
    for written in unended.values():  # open transactions can still be committed
        for name, offset, gone in written:
            keyed.setdefault(name, []).append((offset, gone))
    return {
        "records": records,
        "superseded_records": records - len(keyed),
        "aborted_records": aborted,
        "tombstones": sum(max(rows)[1] for rows in keyed.values()),
        "transaction_markers": markers,
        "bytes_estimate": size,
    }
