"""Each commit's previous one, found while a partition of the log is read from its beginning.

All commits of a group lie in one partition of the log, in order, so that a reader that remembers
the last commit of each key knows the one before without a sort. What it remembers is columns
(numpy), some 24 bytes a key and each group and topic once; a tombstone forgets its key.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pyspark.sql.pandas.types import to_arrow_schema

from pipeline.contract import CHAINED, COMMIT, COMMIT_TOMBSTONE
from pipeline.sources.event_rows import KIND, NONE
from pipeline.sources.log_times import has_time

_COMMIT, _TOMBSTONE = KIND[COMMIT], KIND[COMMIT_TOMBSTONE]
_PARTITION_BITS = 32


class Chain:
    """The last commit of each key so far."""

    schema = to_arrow_schema(CHAINED)

    def __init__(self) -> None:
        self._names: dict[tuple[str, str], int] = {}
        """Group and topic to the upper half of their keys."""
        self._keys = np.empty(0, np.int64)
        """Sorted."""
        self._offsets = np.empty(0, np.int64)
        self._times_ms = np.empty(0, np.int64)

    def __len__(self) -> int:
        return len(self._keys)

    def previous(
        self, rows: NDArray[Any], strings: Sequence[str]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
        """Of each row: the offset and the time (ms) of the commit before it, and whether there is
        one; the rows are then the last ones.

        ``rows`` are those of `event_rows.ROW`, the next of the log, and ``strings`` their texts.
        """
        offsets = np.zeros(len(rows), np.int64)
        times_ms = np.full(len(rows), NONE, np.int64)
        known = np.zeros(len(rows), np.bool_)
        kinds = rows["kind"]
        at = np.flatnonzero((kinds == _COMMIT) | (kinds == _TOMBSTONE))
        if not len(at):
            return offsets, times_ms, known
        keys = self._keys_of(rows[at], strings)
        order = np.argsort(keys, kind="stable")
        keys, at = keys[order], at[order]
        own_offsets = rows["committed_offset"][at]
        own_times_ms = _times_ms(rows[at])
        lives = kinds[at] == _COMMIT
        is_first = np.concatenate(([True], keys[1:] != keys[:-1]))
        is_last = np.concatenate((is_first[1:], [True]))

        follows = ~is_first
        offsets[at[1:]] = own_offsets[:-1]
        times_ms[at[1:]] = own_times_ms[:-1]
        known[at[1:]] = follows[1:] & lives[:-1]
        firsts = at[is_first]
        places, found = self._find(keys[is_first])
        known[firsts] = found
        offsets[firsts[found]] = self._offsets[places[found]]
        times_ms[firsts[found]] = self._times_ms[places[found]]

        self._remember(
            keys[is_last],
            own_offsets[is_last],
            own_times_ms[is_last],
            lives[is_last],
            places,
            found,
        )
        known &= kinds == _COMMIT
        times_ms[~known] = NONE
        return offsets, times_ms, known

    def _keys_of(self, rows: NDArray[Any], strings: Sequence[str]) -> NDArray[np.int64]:
        """A number for each row's group, topic and partition, the same from batch to batch."""
        pairs = rows["group"].astype(np.int64) * len(strings) + rows["topic"]
        distinct, where = np.unique(pairs, return_inverse=True)
        names = self._names
        numbers = [
            names.setdefault(
                (strings[pair // len(strings)], strings[pair % len(strings)]), len(names)
            )
            for pair in distinct.tolist()
        ]
        upper = np.array(numbers, np.int64)[where] << _PARTITION_BITS
        return upper | rows["partition"].astype(np.uint32)

    def _find(self, keys: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Where sorted keys are, and which of them are there."""
        places = np.searchsorted(self._keys, keys).astype(np.int64)
        if not len(self._keys):
            return places, np.zeros(len(keys), np.bool_)
        inside = np.minimum(places, len(self._keys) - 1)
        return places, self._keys[inside] == keys

    def _remember(
        self,
        keys: NDArray[np.int64],
        offsets: NDArray[np.int64],
        times_ms: NDArray[np.int64],
        lives: NDArray[np.bool_],
        places: NDArray[np.int64],
        found: NDArray[np.bool_],
    ) -> None:
        """Take over the last row of each key, whose place was ``places`` if it was ``found``."""
        self._offsets[places[found]] = offsets[found]
        self._times_ms[places[found]] = times_ms[found]
        gone, new = found & ~lives, lives & ~found
        if new.any():
            into = places[new]
            self._keys = np.insert(self._keys, into, keys[new])
            self._offsets = np.insert(self._offsets, into, offsets[new])
            self._times_ms = np.insert(self._times_ms, into, times_ms[new])
        if gone.any():
            places, _ = self._find(keys[gone])
            self._keys = np.delete(self._keys, places)
            self._offsets = np.delete(self._offsets, places)
            self._times_ms = np.delete(self._times_ms, places)


def _times_ms(rows: NDArray[Any]) -> NDArray[np.int64]:
    """When each reached the log; the value's own time where that is not known."""
    return np.where(has_time(rows["written_ms"]), rows["written_ms"], rows["commit_ms"])
