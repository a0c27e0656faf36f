"""COMMITS of Arrow batches, where they are read: row for row what `commits` makes of frames.

The columns are in Python's hands when the history is read from files; to send them through Java
only to have them written costs several times what is done here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark.sql.pandas.types import to_arrow_schema

from pipeline.contract import COMMIT
from pipeline.tables.schemas import COMMITS

COMMITS_ARROW: Final[pa.Schema] = to_arrow_schema(COMMITS)
_AT: Final = pa.timestamp("us", "UTC")
_US_PER_MS = 1000
_PARTITION_BITS = 32
_PARTITION = (1 << _PARTITION_BITS) - 1


class RecordTimes:
    """When the first record at or after an offset was written, of each topic and partition.

    It is what `with_record_time` says: the first record's time of the first batch that does not
    end before the offset.
    """

    def __init__(self, batches: pa.Table) -> None:
        """``batches`` has the columns topic, partition, last_offset and first_at of BATCHES."""
        topics = batches["topic"].combine_chunks().dictionary_encode()
        names = topics.dictionary.to_pylist()
        keys = _keys(_numbers(topics.indices), _numbers(batches["partition"]))
        ends = _numbers(batches["last_offset"])
        order = np.lexsort((ends, keys))
        self._ends = ends[order]
        first_at = batches["first_at"].combine_chunks().take(pa.array(order))
        self._known = _numbers(first_at.is_valid())
        self._times_us = _numbers(first_at.cast(pa.int64()).fill_null(0))
        self._stretches = {
            (names[key >> _PARTITION_BITS], key & _PARTITION): (begin, behind)
            for key, begin, behind in _stretches(keys[order])
        }

    def at(self, rows: pa.RecordBatch, offset: str) -> pa.Array:
        """The times for the offsets in a column of rows that have topic and partition."""
        found = np.zeros(len(rows), np.int64)
        known = np.zeros(len(rows), np.bool_)
        topics = rows["topic"].dictionary_encode()
        names = topics.dictionary.to_pylist()
        keys = _keys(_numbers(topics.indices), _numbers(rows["partition"]))
        order = np.argsort(keys, kind="stable")
        offsets = _numbers(rows[offset].fill_null(0))
        for key, first, beyond in _stretches(keys[order]):
            asked = order[first:beyond]
            stretch = self._stretches.get((names[key >> _PARTITION_BITS], key & _PARTITION))
            if stretch is None:
                continue
            begin, behind = stretch
            places = begin + np.searchsorted(self._ends[begin:behind], offsets[asked])
            inside = places < behind
            at, places = asked[inside], places[inside]
            found[at], known[at] = self._times_us[places], self._known[places]
        known &= _numbers(rows[offset].is_valid())
        return pa.array(found, pa.int64(), mask=~known).cast(_AT)


def commits_of(rows: pa.RecordBatch, times: RecordTimes | None = None) -> pa.RecordBatch:
    """CHAINED to COMMITS, of the same rows in the same order."""
    rows = rows.filter(pc.equal(rows["kind"], COMMIT))
    at = pc.coalesce(rows["written_at"], rows["commit_at"])
    unknown = pa.nulls(len(rows), _AT)
    record_at = unknown if times is None else times.at(rows, "committed_offset")
    previous_record_at = unknown if times is None else times.at(rows, "previous_offset")
    made = {
        "at": at,
        "record_at": record_at,
        "since_previous_s": _seconds_between(rows["previous_at"], at),
        "advanced_records": _difference(rows["committed_offset"], rows["previous_offset"]),
        "advanced_s": _seconds_between(previous_record_at, record_at),
        "day": at.cast(pa.date32()),
    }
    columns = [made[name] if name in made else rows[name] for name in COMMITS_ARROW.names]
    return pa.RecordBatch.from_arrays(columns, schema=COMMITS_ARROW)


def _seconds_between(earlier: pa.Array, later: pa.Array) -> pa.Array:
    """Exact to the millisecond, which is what brokers count in."""
    earlier_ms, later_ms = (_numbers(_ticks(each)) // _US_PER_MS for each in (earlier, later))
    return _where_both((later_ms - earlier_ms) / 1000.0, earlier, later)


def _difference(value: pa.Array, other: pa.Array) -> pa.Array:
    """Null where a long does not hold it: what a client commits is not checked by brokers."""
    left, right = (_numbers(each.fill_null(0)) for each in (value, other))
    difference = left - right
    fits = ((left ^ right) & (left ^ difference)) >= 0
    return _where_both(difference, value, other, fits)


def _where_both(
    numbers: NDArray[Any], one: pa.Array, other: pa.Array, holds: NDArray[np.bool_] | None = None
) -> pa.Array:
    known = _numbers(one.is_valid()) & _numbers(other.is_valid())
    return pa.array(numbers, mask=~(known if holds is None else known & holds))


def _keys(topics: NDArray[Any], partitions: NDArray[Any]) -> NDArray[np.int64]:
    """A number for each topic, by its place among the names, and partition."""
    keys: NDArray[np.int64] = topics.astype(np.int64) << _PARTITION_BITS
    return keys | partitions.astype(np.uint32)


def _stretches(keys: NDArray[np.int64]) -> Iterator[tuple[int, int, int]]:
    """Each of the sorted keys, where it begins and where it ends."""
    distinct, begins, counts = np.unique(keys, return_index=True, return_counts=True)
    yield from zip(distinct.tolist(), begins.tolist(), (begins + counts).tolist(), strict=True)


def _ticks(times: pa.Array) -> pa.Array:
    return times.cast(pa.int64()).fill_null(0)


def _numbers(column: pa.Array | pa.ChunkedArray) -> NDArray[Any]:
    return np.asarray(column)
