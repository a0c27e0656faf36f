"""The offsets of one (group, topic): arrays with a slot for each partition.

If the partitions in use are dense, the slot of a partition is the partition's number. If a group
commits a few partitions with distant numbers (or a log contains partition 2^31-1), slots are
assigned in order of arrival, and a dict maps partitions to slots. The memory therefore depends on
the number of offsets, never on a number that a client sent.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import count, repeat
from operator import gt, itemgetter, lt

from offsets.ascending import is_range
from offsets.runs import OffsetRun

Entry = tuple[int, int, str, int, int, int]
"""A committed offset: offset, leader epoch, metadata, commit timestamp, expire timestamp, log
offset."""

_NONE = -1
"""The offset and the leader epoch in an unused slot. Also the value of an expire timestamp that is
not set."""

_UNUSED = -(1 << 62)
"""The value in ``_log_offsets`` that marks a slot as unused."""

_ALWAYS_DENSE = 64
_DENSE_FACTOR = 4
"""If all partition numbers are below this factor multiplied by the number of offsets, the partition
number of an offset is also its slot."""

_NO_SLOTS: list[int] = []
"""The list of free slots of all columns without a dict of slots. The columns share this list, so it
must stay empty."""


class TopicColumns:
    """The committed offsets of one (group, topic), as columns by slot. Rarely used fields are in
    dicts by slot."""

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
        "encoded",
    )

    def __init__(self) -> None:
        self.count = 0
        """The number of offsets, which is the number of used slots."""
        self.encoded: bytes | None = None
        """The cached encoding for a snapshot (columns_image.py); None after a change of the
        columns."""
        self._offsets = array("q")
        self._epochs = array("i")
        self._commit_timestamps = array("q")
        self._log_offsets = array("q")
        """For each slot, the log offset of the record minus the number of the slot. Consecutive
        partitions of one run have the same value here."""
        self._metadata: dict[int, str] | None = None
        self._expire_timestamps: dict[int, int] | None = None
        self._slots: dict[int, int] | None = None
        """By partition: its index in the columns. None if the partition number is the index."""
        self._free: list[int] = _NO_SLOTS
        """Slots of deleted offsets, which new offsets reuse. Used only if ``_slots`` is set."""
        self._recheck_at = 0
        """When the topic has at least this number of offsets, the next change checks whether
        partition numbers can be used as slots, so that ``_slots`` is not needed."""

    # --------------------------------------------------------------------------------- writing

    def store(self, run: OffsetRun, base_offset: int) -> int:
        """Stores the offsets of a run, whose records begin at log offset ``base_offset``. Returns
        the number of partitions that had no offset before."""
        self.encoded = None
        partitions = slots = run.partitions
        log_offsets = self._log_offsets
        slot = partitions[0]
        if len(partitions) == 1 and self._slots is None and 0 <= slot < len(log_offsets):
            # a commit of one partition, the most frequent kind
            new = 1 if log_offsets[slot] == _UNUSED else 0
            self._offsets[slot] = run.offsets[0]
            self._epochs[slot] = run.leader_epochs[0]
            self._commit_timestamps[slot] = run.commit_timestamp_ms
            log_offsets[slot] = base_offset - slot
        else:
            new, slots = self._store_columns(run, base_offset)
        if run.metadata is not None or self._metadata:
            self._store_metadata(run.metadata, slots)
        if run.expire_timestamp_ms != _NONE or self._expire_timestamps:
            self._store_expiry(run.expire_timestamp_ms, slots)
        self.count += new
        if self._slots is not None and self.count >= self._recheck_at:
            self._unmap_slots_if_dense()
        return new

    def _store_columns(self, run: OffsetRun, base_offset: int) -> tuple[int, Sequence[int]]:
        """Stores the columns of a run that have a value for every offset. Returns the number of
        partitions that had no offset before, and the slot of each offset in the run."""
        partitions = run.partitions
        size = len(partitions)
        ascending = size > 1 and is_range(partitions)
        low = partitions[0] if ascending else min(partitions)
        high = partitions[-1] if ascending else max(partitions)
        if self._slots is None and not (low >= 0 and self._dense_up_to(high, size)):
            self._map_slots()
        if self._slots is None and ascending:
            return self._store_range(run, base_offset, low, high + 1), partitions
        slots = partitions
        if self._slots is not None:
            slots = [self._slot_for(partition) for partition in partitions]
        return self._store_each(run, base_offset, slots), slots

    def _store_range(self, run: OffsetRun, base_offset: int, start: int, stop: int) -> int:
        """Stores the offsets of consecutive partitions by copying whole columns; most commits have
        such partitions. Returns the number of partitions that had no offset before."""
        size = stop - start
        full = self.count == len(self._offsets)
        new = 0 if full else self._log_offsets[start:stop].count(_UNUSED)
        offsets, epochs = run.offsets, run.leader_epochs
        if isinstance(epochs, array):  # from the log, which yields columns
            self._epochs[start:stop] = epochs
        elif epochs.count(epochs[0]) == size:
            self._epochs[start:stop] = array("i", epochs[:1]) * size
        else:
            self._epochs[start:stop] = array("i", epochs)
        self._offsets[start:stop] = offsets if isinstance(offsets, array) else array("q", offsets)
        self._commit_timestamps[start:stop] = array("q", (run.commit_timestamp_ms,)) * size
        self._log_offsets[start:stop] = array("q", (base_offset - start,)) * size
        return new

    def _store_each(self, run: OffsetRun, base_offset: int, slots: Sequence[int]) -> int:
        offsets, epochs = self._offsets, self._epochs
        timestamps, log_offsets = self._commit_timestamps, self._log_offsets
        timestamp = run.commit_timestamp_ms
        new = 0
        if self.count < len(offsets):
            new = sum([log_offsets[slot] == _UNUSED for slot in set(slots)])
        for slot, offset, epoch, log_offset in zip(
            slots, run.offsets, run.leader_epochs, count(base_offset)
        ):
            offsets[slot] = offset
            epochs[slot] = epoch
            timestamps[slot] = timestamp
            log_offsets[slot] = log_offset - slot
        return new

    def _store_metadata(self, metadata: Sequence[str] | None, slots: Sequence[int]) -> None:
        if self._metadata is None:
            self._metadata = {}
        kept = self._metadata
        if metadata is None:
            for slot in slots:
                kept.pop(slot, None)
            return
        for slot, text in zip(slots, metadata, strict=True):
            if text:
                kept[slot] = text
            else:
                kept.pop(slot, None)

    def _store_expiry(self, expire_timestamp_ms: int, slots: Sequence[int]) -> None:
        if self._expire_timestamps is None:
            self._expire_timestamps = {}
        if expire_timestamp_ms != _NONE:
            self._expire_timestamps.update(dict.fromkeys(slots, expire_timestamp_ms))
            return
        for slot in slots:
            self._expire_timestamps.pop(slot, None)

    def take_newer(self, other: TopicColumns) -> int:
        """Stores each offset of ``other`` that has a higher log offset than the stored offset of
        the same partition. Returns the number of partitions that had no offset before."""
        partitions, before, taken = other.partitions(), self.count, dict[int, int]()
        if self._slots is None and not (
            partitions[0] >= 0 and self._dense_up_to(partitions[-1], len(partitions))
        ):
            self._map_slots()
        self.encoded = None
        if self._take_range(other):
            return self.count - before
        for partition in partitions:
            theirs = partition if other._slots is None else other._slots[partition]
            slot = partition if self._slots is None else self._slot_for(partition)
            log_offset = other._log_offsets[theirs] + theirs
            if self._log_offsets[slot] == _UNUSED:
                self.count += 1
            elif self._log_offsets[slot] + slot > log_offset:
                continue
            self._offsets[slot] = other._offsets[theirs]
            self._epochs[slot] = other._epochs[theirs]
            self._commit_timestamps[slot] = other._commit_timestamps[theirs]
            self._log_offsets[slot] = log_offset - slot
            taken[slot] = theirs
        texts, expiries = other._metadata or {}, other._expire_timestamps or {}
        if texts or self._metadata:
            self._store_metadata([texts.get(theirs, "") for theirs in taken.values()], list(taken))
        if expiries or self._expire_timestamps:
            for slot, theirs in taken.items():
                self._store_expiry(expiries.get(theirs, _NONE), (slot,))
        if self._slots is not None and self.count >= self._recheck_at:
            self._unmap_slots_if_dense()
        return self.count - before

    def _take_range(self, other: TopicColumns) -> bool:
        """Does the same as `take_newer`, but faster: copies whole columns. Returns False without a
        change if this is not possible: if an offset of ``other`` is not newer, or if rarely used
        fields have values."""
        size = len(other._offsets)
        rare = other._metadata or other._expire_timestamps
        if rare or self._metadata or self._expire_timestamps or other.count < size:
            return False
        if self._slots is not None or other._slots is not None:
            return False
        mine = self._log_offsets[:size]
        if True in map(gt, mine, other._log_offsets):
            return False
        self.count += mine.count(_UNUSED)
        self._offsets[:size] = other._offsets
        self._epochs[:size] = other._epochs
        self._commit_timestamps[:size] = other._commit_timestamps
        self._log_offsets[:size] = other._log_offsets
        return True

    def remove(self, partition: int) -> bool:
        """Removes the offset of a partition. Returns whether the partition had an offset."""
        slot = self._slot_of(partition)
        if slot is None:
            return False
        self.encoded = None
        self._offsets[slot] = self._epochs[slot] = _NONE
        self._log_offsets[slot] = _UNUSED
        if self._metadata:
            self._metadata.pop(slot, None)
        if self._expire_timestamps:
            self._expire_timestamps.pop(slot, None)
        if self._slots is not None:
            del self._slots[partition]
            self._free.append(slot)
        self.count -= 1
        return True

    # --------------------------------------------------------------------------------- reading

    def fetch(
        self, partitions: Sequence[int]
    ) -> tuple[Sequence[int], Sequence[int], Sequence[str] | None]:
        """Returns columns of offsets, leader epochs and metadata. A partition without an offset has
        offset and epoch -1. The metadata column is None if all metadata is empty."""
        slots: Sequence[int | None] = partitions
        offsets: Sequence[int]
        epochs: Sequence[int]
        size = len(self._offsets) if self._slots is None else 0
        if len(partitions) == 1:
            partition = partitions[0]
            if 0 <= partition < size:
                offsets, epochs = (self._offsets[partition],), (self._epochs[partition],)
                if not self._metadata:
                    return offsets, epochs, None
                text = self._metadata.get(partition)
                return offsets, epochs, None if text is None else (text,)
        if size and is_range(partitions) and partitions[0] >= 0 and partitions[-1] < size:
            start, stop = partitions[0], partitions[-1] + 1
            offsets = self._offsets[start:stop].tolist()
            epochs = self._epochs[start:stop].tolist()
        elif size and len(partitions) > 1 and min(partitions) >= 0 and max(partitions) < size:
            pick = itemgetter(*partitions)
            offsets, epochs = pick(self._offsets), pick(self._epochs)
        else:
            slots = [self._slot_of(partition) for partition in partitions]
            offsets = [_NONE if slot is None else self._offsets[slot] for slot in slots]
            epochs = [_NONE if slot is None else self._epochs[slot] for slot in slots]
        if not self._metadata:
            return offsets, epochs, None
        kept = self._metadata
        metadata = ["" if slot is None else kept.get(slot, "") for slot in slots]
        return offsets, epochs, metadata if any(metadata) else None

    def would_lower(self, partitions: Sequence[int], offsets: Sequence[int]) -> bool:
        """Returns whether at least one of ``offsets`` is below the stored offset of its
        partition."""
        kept = self._offsets
        if self._slots is None:
            if len(partitions) == 1:
                return 0 <= partitions[0] < len(kept) and offsets[0] < kept[partitions[0]]
            if partitions and partitions[0] >= 0 and is_range(partitions):
                return True in map(lt, offsets, kept[partitions[0] : partitions[-1] + 1])
        now = self.fetch(partitions)[0]
        return True in map(lt, offsets, now)

    def get(self, partition: int) -> Entry | None:
        """Returns the offset of a partition with all its fields; None if the partition has no
        offset."""
        slot = self._slot_of(partition)
        if slot is None:
            return None
        return (
            self._offsets[slot],
            self._epochs[slot],
            self._metadata.get(slot, "") if self._metadata else "",
            self._commit_timestamps[slot],
            self._expire_timestamps.get(slot, _NONE) if self._expire_timestamps else _NONE,
            self._log_offsets[slot] + slot,
        )

    def partitions(self) -> list[int]:
        """Returns the partitions with an offset, in ascending order."""
        if self._slots is not None:
            return sorted(self._slots)
        if self.count == len(self._offsets):
            return list(range(self.count))
        return [slot for slot, used in enumerate(self._log_offsets) if used != _UNUSED]

    def commits_not_before_ms(self) -> int:
        """Returns the earliest commit time in wall ms; -1 if an offset has an expire timestamp, or
        if the topic has no offsets. The offset with this commit time expires first. Until it
        expires, a retention check need not read the other offsets."""
        if self._expire_timestamps or not self.count:
            return _NONE
        return min(self._commit_timestamps)

    def stamps(self) -> Iterator[tuple[int, int, int]]:
        """Yields the partition, commit timestamp and expire timestamp of every offset."""
        expiries = self._expire_timestamps or {}
        for partition in self.partitions():
            slot = partition if self._slots is None else self._slots[partition]
            yield partition, self._commit_timestamps[slot], expiries.get(slot, _NONE)

    def commits(self, partitions: Sequence[int]) -> Iterable[tuple[int, int, int, int]]:
        """Yields partition, offset, commit timestamp and expire timestamp for each of
        ``partitions`` that has an offset. ``partitions`` must ascend without repeats."""
        expiries = self._expire_timestamps
        if self._slots is None and self.count == len(self._offsets) and not expiries:
            first, last = (partitions[0], partitions[-1]) if partitions else (0, -1)
            if first >= 0 and last < self.count and last - first == len(partitions) - 1:
                offsets = self._offsets[first : last + 1]  # whole columns are enough
                times = self._commit_timestamps[first : last + 1]
                return zip(partitions, offsets, times, repeat(_NONE), strict=False)
        return [
            (
                partition,
                self._offsets[slot],
                self._commit_timestamps[slot],
                expiries.get(slot, _NONE) if expiries else _NONE,
            )
            for partition in partitions
            if (slot := self._slot_of(partition)) is not None
        ]

    def written_below(self, partitions: Iterable[int], log_offset: int) -> list[int]:
        """Returns those of ``partitions`` whose committed offset was written by a record before
        ``log_offset``."""
        log_offsets = self._log_offsets
        return [
            partition
            for partition in partitions
            if (slot := self._slot_of(partition)) is not None
            and log_offsets[slot] + slot < log_offset
        ]

    # ----------------------------------------------------------------------------------- slots

    def _slot_of(self, partition: int) -> int | None:
        if self._slots is not None:
            return self._slots.get(partition)
        if 0 <= partition < len(self._offsets) and self._log_offsets[partition] != _UNUSED:
            return partition
        return None

    def _dense_up_to(self, partition: int, arriving: int) -> bool:
        """Returns True if the slot (array index) of a partition is its number; then extends the
        arrays to this slot. ``arriving`` is the number of offsets that the caller adds."""
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
        self._log_offsets.extend(array("q", (_UNUSED,)) * slots)

    def _slot_for(self, partition: int) -> int:
        """Returns the slot of a partition in the dict of slots. Assigns a new slot if the partition
        has none."""
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
        """Switches to a dict of slots. Before, partition numbers were used as slots."""
        used = self.partitions()
        self._slots = {partition: partition for partition in used}
        self._free = sorted(set(range(len(self._offsets))) - set(used))
        self._recheck_at = max(2 * self.count, _ALWAYS_DENSE)

    def _unmap_slots_if_dense(self) -> None:
        """Copies the offsets to new arrays whose slots are the partition numbers. Does nothing if
        too many slots would be unused."""
        assert self._slots is not None
        self._recheck_at = 2 * self.count
        if min(self._slots) < 0 or max(self._slots) >= _DENSE_FACTOR * self.count:
            return
        entries = [(partition, self.get(partition)) for partition in sorted(self._slots)]
        self.__init__()  # type: ignore[misc]  # reset, then filled again
        self._append_unused(entries[-1][0] + 1)
        for partition, entry in entries:
            assert entry is not None
            offset, epoch, metadata, commit_ms, expire_ms, log_offset = entry
            texts = [metadata] if metadata else None
            one = OffsetRun("", "", [partition], [offset], [epoch], texts, commit_ms, expire_ms)
            self.store(one, log_offset)
