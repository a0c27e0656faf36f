"""The offsets of one (group, topic): arrays, a slot for each partition.

As long as the partitions in use are dense enough, a partition's slot is its own number. A group
that commits few partitions far apart (or a log that claims partition 2^31-1) gets slots in order of
arrival and a dict from partition to slot, so that memory follows the entries, never a number that
somebody sent.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from operator import itemgetter

from offsets.runs import OffsetRun

Entry = tuple[int, int, str, int, int, int]
"""offset, leader epoch, metadata, commit timestamp, expire timestamp, log offset."""

_NONE = -1
"""In the column of log offsets: the slot is unused. Offset and epoch are then -1 too."""

_ALWAYS_DENSE = 64
_DENSE_FACTOR = 4
"""Partition numbers may be their own slots up to so many times the entries."""


class TopicColumns:
    """Columns by slot, and the few things that most entries do not have, by slot too."""

    __slots__ = (
        "_commit_timestamps",
        "_epochs",
        "_expire_timestamps",
        "_free",
        "_log_offsets",
        "_metadata",
        "_offsets",
        "_recheck_at",
        "_slots",
        "count",
    )

    def __init__(self) -> None:
        self.count = 0
        """Slots in use."""
        self._offsets = array("q")
        self._epochs = array("i")
        self._commit_timestamps = array("q")
        self._log_offsets = array("q")
        self._metadata: dict[int, str] | None = None
        self._expire_timestamps: dict[int, int] | None = None
        self._slots: dict[int, int] | None = None
        """Partition to slot; None while each partition is its own slot."""
        self._free: list[int] | None = None
        """Unused slots; kept only beside ``_slots``."""
        self._recheck_at = 0
        """At so many entries it is seen whether ``_slots`` can go."""

    # --------------------------------------------------------------------------------- writing

    def store(self, run: OffsetRun, base_offset: int) -> int:
        """Take the run's entries, its records being at ``base_offset`` and on; how many are new."""
        partitions = run.partitions
        low, high = min(partitions), max(partitions)
        size = len(partitions)
        if self._slots is None and not (low >= 0 and self._dense_up_to(high, size)):
            self._map_slots()
        if self._slots is not None:
            slots: Sequence[int] = [self._slot_for(partition) for partition in partitions]
        elif (
            size > 2 and high - low == size - 1 and tuple(partitions) == tuple(range(low, high + 1))
        ):
            new = self._store_range(run, base_offset, low, high + 1)
            self._store_rest(run, partitions)
            self.count += new
            return new
        else:
            slots = partitions
        new = 0
        log_offsets = self._log_offsets
        for i, slot in enumerate(slots):
            if log_offsets[slot] == _NONE:
                new += 1
            log_offsets[slot] = base_offset + i
        timestamp, timestamps = run.commit_timestamp_ms, self._commit_timestamps
        offsets, epochs = self._offsets, self._epochs
        for slot, offset, epoch in zip(slots, run.offsets, run.leader_epochs, strict=True):
            offsets[slot] = offset
            epochs[slot] = epoch
            timestamps[slot] = timestamp
        self._store_rest(run, slots)
        self.count += new
        if self._slots is not None and self.count >= self._recheck_at:
            self._unmap_slots_if_dense()
        return new

    def _store_range(self, run: OffsetRun, base_offset: int, start: int, stop: int) -> int:
        """The common case: partitions ascending without a gap, so whole columns move."""
        size = stop - start
        new = self._log_offsets[start:stop].count(_NONE)
        self._offsets[start:stop] = array("q", run.offsets)
        self._epochs[start:stop] = array("i", run.leader_epochs)
        self._commit_timestamps[start:stop] = array("q", (run.commit_timestamp_ms,)) * size
        self._log_offsets[start:stop] = array("q", range(base_offset, base_offset + size))
        return new

    def _store_rest(self, run: OffsetRun, slots: Sequence[int]) -> None:
        """Metadata and expiry, which most entries do not have."""
        if run.metadata is not None:
            kept = self._metadata
            if kept is None:
                kept = self._metadata = {}
            for slot, text in zip(slots, run.metadata, strict=True):
                if text:
                    kept[slot] = text
                else:
                    kept.pop(slot, None)
        elif self._metadata:
            for slot in slots:
                self._metadata.pop(slot, None)
        if run.expire_timestamp_ms != _NONE:
            if self._expire_timestamps is None:
                self._expire_timestamps = {}
            self._expire_timestamps.update(dict.fromkeys(slots, run.expire_timestamp_ms))
        elif self._expire_timestamps:
            for slot in slots:
                self._expire_timestamps.pop(slot, None)

    def remove(self, partition: int) -> bool:
        """Forget one entry; whether there was one."""
        slot = self._slot_of(partition)
        if slot is None:
            return False
        self._offsets[slot] = self._epochs[slot] = self._log_offsets[slot] = _NONE
        if self._metadata:
            self._metadata.pop(slot, None)
        if self._expire_timestamps:
            self._expire_timestamps.pop(slot, None)
        if self._slots is not None:
            del self._slots[partition]
            self._free = [*(self._free or ()), slot]
        self.count -= 1
        return True

    # --------------------------------------------------------------------------------- reading

    def fetch(
        self, partitions: Sequence[int]
    ) -> tuple[Sequence[int], Sequence[int], Sequence[str] | None]:
        """Columns of offsets, leader epochs and metadata (None: all empty); -1 where nothing is."""
        size = len(partitions)
        if (
            self._slots is None
            and size > 1
            and min(partitions) >= 0
            and max(partitions) < len(self._offsets)
        ):
            pick = itemgetter(*partitions)
            offsets: Sequence[int] = pick(self._offsets)
            epochs: Sequence[int] = pick(self._epochs)
            slots: Sequence[int | None] = partitions
        else:
            slots = [self._slot_of(partition) for partition in partitions]
            offsets = [_NONE if slot is None else self._offsets[slot] for slot in slots]
            epochs = [_NONE if slot is None else self._epochs[slot] for slot in slots]
        if not self._metadata:
            return offsets, epochs, None
        kept = self._metadata
        metadata = ["" if slot is None else kept.get(slot, "") for slot in slots]
        return offsets, epochs, metadata if any(metadata) else None

    def get(self, partition: int) -> Entry | None:
        """One entry whole."""
        slot = self._slot_of(partition)
        if slot is None:
            return None
        return (
            self._offsets[slot],
            self._epochs[slot],
            self._metadata.get(slot, "") if self._metadata else "",
            self._commit_timestamps[slot],
            self._expire_timestamps.get(slot, _NONE) if self._expire_timestamps else _NONE,
            self._log_offsets[slot],
        )

    def partitions(self) -> list[int]:
        """The partitions with an entry, ascending."""
        if self._slots is not None:
            return sorted(self._slots)
        if self.count == len(self._offsets):
            return list(range(self.count))
        return [slot for slot, where in enumerate(self._log_offsets) if where != _NONE]

    def stamps(self) -> Iterator[tuple[int, int, int]]:
        """(partition, commit timestamp, expire timestamp) of every entry."""
        expiries = self._expire_timestamps or {}
        for partition in self.partitions():
            slot = partition if self._slots is None else self._slots[partition]
            yield partition, self._commit_timestamps[slot], expiries.get(slot, _NONE)

    # ----------------------------------------------------------------------------------- slots

    def _slot_of(self, partition: int) -> int | None:
        """The slot in use for a partition."""
        if self._slots is not None:
            return self._slots.get(partition)
        if 0 <= partition < len(self._log_offsets) and self._log_offsets[partition] != _NONE:
            return partition
        return None

    def _dense_up_to(self, partition: int, arriving: int) -> bool:
        """Whether a partition may be its own slot; if so, the arrays reach it."""
        missing = partition + 1 - len(self._offsets)
        if missing <= 0:
            return True
        if partition >= _ALWAYS_DENSE and partition >= _DENSE_FACTOR * (self.count + arriving):
            return False
        self._append_unused(missing)
        return True

    def _append_unused(self, slots: int) -> None:
        unused = array("q", (_NONE,)) * slots
        self._offsets.extend(unused)
        self._epochs.extend(array("i", (_NONE,)) * slots)
        self._commit_timestamps.extend(unused)
        self._log_offsets.extend(unused)

    def _slot_for(self, partition: int) -> int:
        """The slot of a partition beside a dict of slots, made if need be."""
        assert self._slots is not None
        slot = self._slots.get(partition)
        if slot is None:
            if self._free:
                slot = self._free.pop()
            else:
                slot = len(self._offsets)
                self._append_unused(1)
            self._slots[partition] = slot
        return slot

    def _map_slots(self) -> None:
        """Go over to a dict of slots."""
        used = self.partitions()
        self._slots = {partition: partition for partition in used}
        self._free = sorted(set(range(len(self._offsets))) - set(used))
        self._recheck_at = max(2 * self.count, _ALWAYS_DENSE)

    def _unmap_slots_if_dense(self) -> None:
        """Go back, with fresh arrays, when the partitions have filled up."""
        assert self._slots is not None
        self._recheck_at = 2 * self.count
        if min(self._slots) < 0 or max(self._slots) >= _DENSE_FACTOR * self.count:
            return
        entries = [(partition, self.get(partition)) for partition in sorted(self._slots)]
        self.__init__()  # type: ignore[misc]  # as new, then filled again
        self._append_unused(entries[-1][0] + 1)
        for partition, entry in entries:
            assert entry is not None
            offset, epoch, metadata, commit_ms, expire_ms, log_offset = entry
            texts = [metadata] if metadata else None
            one = OffsetRun("", "", [partition], [offset], [epoch], texts, commit_ms, expire_ms)
            self.store(one, log_offset)


def _is_range(partitions: Sequence[int], low: int, high: int) -> bool:
    """Whether they ascend without a gap."""
    return high - low == len(partitions) - 1 and tuple(partitions) == tuple(range(low, high + 1))
