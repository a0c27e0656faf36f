"""The cache of committed offsets. The cache changes only by the replay of records in the log.

Offsets are stored in arrays per (group, topic), without an object for each offset
(offsets/columns.py). One million offsets cost some tens of megabytes, and a fetch or a commit of
many partitions copies whole columns.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from offsets.columns import TopicColumns
from offsets.expiry import ExpiryRule, GroupCondition, expires_at, may_expire, rule_for
from offsets.pending import PendingOffsets
from offsets.runs import (
    MarkerRun,
    OffsetRun,
    OffsetTombstones,
    OwnBatch,
    Run,
    TransactionalRun,
)
from protocol import compiled
from protocol.errors import NONE, UNSTABLE_OFFSET_COMMIT

_store_offsets = None if compiled.MODULE is None else compiled.MODULE.store_offsets
_first_lowered = None if compiled.MODULE is None else compiled.MODULE.first_lowered


class FetchedColumns(NamedTuple):
    """The offsets of one topic, as columns of equal length. The offset is -1 for a partition
    without a committed offset."""

    topic: str
    partitions: Sequence[int]
    offsets: Sequence[int]
    leader_epochs: Sequence[int]
    metadata: Sequence[str] | None
    """The metadata of each partition; None if all metadata is empty."""
    codes: int | Sequence[int] = NONE
    """One error code for all partitions, or a column with a code for each partition."""


class CachedOffset(NamedTuple):
    """A committed offset with all its fields, for views and tests. Timestamps are in wall ms, -1 if
    not set."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int
    log_offset: int
    """The log offset of the record in `__consumer_offsets`."""


class OffsetCache:
    """The committed offsets of the groups of one partition of ``__consumer_offsets``."""

    __slots__ = ("_count", "_groups", "_topic_names", "pending")

    def __init__(self) -> None:
        self._groups: dict[str, dict[str, TopicColumns]] = {}
        """The columns by group and topic. Groups and topics without an offset are removed."""
        self._topic_names: dict[str, str] = {}
        """One shared string per topic name. Otherwise each group and each run would have its own
        copy."""
        self._count = 0
        self.pending = PendingOffsets()

    # ------------------------------------------------------------------------------ the writer

    def replay(self, run: Run | OwnBatch, base_offset: int) -> None:
        """Applies a run whose first record is at log offset ``base_offset``. The offsets in the run
        replace earlier ones. A run of group metadata does not change the cache."""
        if type(run) is OffsetRun:
            if run.partitions:
                topics = self._groups.get(run.group_id)
                columns = None if topics is None else topics.get(run.topic)
                if columns is None:
                    columns = self._new_columns(run.group_id, run.topic)
                self._count += columns.store(run, base_offset)
        elif isinstance(run, TransactionalRun):
            self.pending.replay(run, base_offset)
        elif isinstance(run, MarkerRun):
            self._end(run)
        elif isinstance(run, OffsetTombstones):
            self._remove(run.group_id, run.keys)
            if self.pending:
                self.pending.remove(run)

    def replay_plain(
        self, runs: Sequence[Run | OwnBatch], index: int, base_offset: int
    ) -> tuple[int, int]:
        """Applies runs from ``index`` on by compiled code, up to the first run that the compiled
        code does not support. Returns the index of this run and the log offset of its first record;
        `replay` must apply this run."""
        if _store_offsets is None:
            return index, base_offset
        index, base_offset, new = _store_offsets(self._groups, runs, index, base_offset, OffsetRun)
        self._count += new
        return index, base_offset

    def _end(self, marker: MarkerRun) -> None:
        """Applies the end of a transaction. If it was committed, stores each of its pending
        offsets, unless the cache has a newer commit (with a higher log offset) for the same
        partition."""
        for (group_id, topic), pending in self.pending.end(marker.producer_id):
            if marker.committed:
                columns = self._groups.get(group_id, {}).get(topic)
                if columns is None:
                    columns = self._new_columns(group_id, topic)
                self._count += columns.take_newer(pending)

    def _new_columns(self, group_id: str, topic: str) -> TopicColumns:
        topics = self._groups.setdefault(group_id, {})
        columns = topics[self._topic_names.setdefault(topic, topic)] = TopicColumns()
        return columns

    def _remove(self, group_id: str, keys: Sequence[tuple[str, int]]) -> None:
        topics = self._groups.get(group_id)
        if topics is None:
            return
        for topic, partition in keys:
            columns = topics.get(topic)
            if columns is not None and columns.remove(partition):
                self._count -= 1
                if not columns.count:
                    del topics[topic]
        if not topics:
            del self._groups[group_id]

    def restore(self, group_id: str, topic: str, columns: TopicColumns) -> None:
        """Loads the columns of a (group, topic) from a snapshot, before the log is replayed. Raises
        KeyError if the cache already has columns for this (group, topic), because a snapshot has
        each (group, topic) once."""
        topics = self._groups.setdefault(group_id, {})
        if topic in topics:
            raise KeyError(topic)
        topics[self._topic_names.setdefault(topic, topic)] = columns
        self._count += columns.count

    # ----------------------------------------------------------------------------- the readers

    def fetch(self, group_id: str, topic: str, partitions: Sequence[int]) -> FetchedColumns:
        """Returns the committed offsets of ``partitions``, in the same order; -1 for a partition
        without a committed offset."""
        topics = self._groups.get(group_id)
        columns = None if topics is None else topics.get(topic)
        if columns is None:
            nothing = (-1,) * len(partitions)
            return FetchedColumns(topic, partitions, nothing, nothing, None)
        return FetchedColumns(topic, partitions, *columns.fetch(partitions))

    def stable_only(self, group_id: str, fetched: FetchedColumns) -> FetchedColumns:
        """Returns the fetched offsets, with UNSTABLE_OFFSET_COMMIT for each offset that an open
        transaction may change.

        This error makes the client retry until the transaction has ended (KIP-447).
        """
        pending = self.pending.producers(group_id, fetched.topic)
        open_slots = [slot for slot, each in enumerate(fetched.partitions) if each in pending]
        if not pending or not open_slots:
            return fetched
        offsets, epochs = list(fetched.offsets), list(fetched.leader_epochs)
        metadata = None if fetched.metadata is None else list(fetched.metadata)
        codes = [NONE] * len(offsets)
        for slot in open_slots:
            offsets[slot] = epochs[slot] = -1
            codes[slot] = UNSTABLE_OFFSET_COMMIT
            if metadata is not None:
                metadata[slot] = ""
        return FetchedColumns(fetched.topic, fetched.partitions, offsets, epochs, metadata, codes)

    def moved_back(self, group_id: str, runs: Sequence[Run]) -> Sequence[tuple[str, int, int, int]]:
        """Returns (topic, partition, current offset, new offset) for each offset that these runs
        would lower."""
        topics = self._groups.get(group_id)
        if topics is None:
            return ()
        if _first_lowered is not None and _first_lowered(topics, runs, OffsetRun) == len(runs):
            return ()
        lowered: list[tuple[str, int, int, int]] = []
        for run in runs:
            if type(run) is not OffsetRun:
                continue
            columns = topics.get(run.topic)
            if columns is not None and columns.would_lower(run.partitions, run.offsets):
                now = columns.fetch(run.partitions)[0]
                lowered += [
                    (run.topic, partition, before, after)
                    for partition, before, after in zip(
                        run.partitions, now, run.offsets, strict=True
                    )
                    if after < before
                ]
        return lowered

    def moved_forward(
        self, group_id: str, runs: Iterable[Run]
    ) -> Sequence[tuple[str, int, int, int]]:
        """Returns (topic, partition, current offset, new offset) for each offset that these runs
        would raise."""
        topics = self._groups.get(group_id, {})
        raised: list[tuple[str, int, int, int]] = []
        for run in runs:
            if isinstance(run, OffsetRun) and (columns := topics.get(run.topic)) is not None:
                now = columns.fetch(run.partitions)[0]
                both = zip(run.partitions, now, run.offsets, strict=True)
                raised += [(run.topic, *each) for each in both if 0 <= each[1] < each[2]]
        return raised

    def lowered(
        self, group_id: str, topic: str, pending: TopicColumns
    ) -> Iterator[tuple[str, int, int, int]]:
        """Returns (topic, partition, current offset, pending offset) for each committed offset that
        a commit of the pending offsets' transaction would lower."""
        columns = self._groups.get(group_id, {}).get(topic)
        partitions = pending.partitions()
        after = pending.fetch(partitions)[0]
        if columns is None or not columns.would_lower(partitions, after):
            return
        now = columns.fetch(partitions)[0]
        for partition, before, offset in zip(partitions, now, after, strict=True):
            kept, younger = columns.get(partition), pending.get(partition)
            if offset < before and kept and younger and kept[-1] < younger[-1]:
                yield topic, partition, before, offset

    def fetch_all(self, group_id: str) -> list[FetchedColumns]:
        """Returns all offsets of the group, with one FetchedColumns per topic. The partitions are
        in ascending order."""
        fetched = []
        for topic, columns in self._groups.get(group_id, {}).items():
            partitions = columns.partitions()
            fetched.append(FetchedColumns(topic, partitions, *columns.fetch(partitions)))
        return fetched

    def get(self, group_id: str, topic: str, partition: int) -> CachedOffset | None:
        """Returns the committed offset of a partition with all its fields; None if the group has no
        committed offset of the partition."""
        columns = self._groups.get(group_id, {}).get(topic)
        entry = None if columns is None else columns.get(partition)
        return None if entry is None else CachedOffset(*entry)

    def has_offsets(self, group_id: str) -> bool:
        return group_id in self._groups or group_id in self.pending.groups()

    def pending_count(self) -> int:
        return self.pending.count()

    def groups(self) -> Collection[str]:
        """Returns the ids of the groups with offsets. The collection is not a copy; callers must
        not use it after a ``replay``."""
        return self._groups.keys()

    def topics(self, group_id: str) -> Collection[str]:
        """Returns the topics in which the group has offsets. The collection is a live view, invalid
        after a ``replay``."""
        return self._groups.get(group_id, {}).keys()

    def commits(
        self, group_id: str, topic: str, at_most: int
    ) -> Iterator[Iterable[tuple[int, int, int, int]]]:
        """Yields the offsets of a topic in blocks of at most ``at_most`` elements (partition,
        offset, commit time, expire time), in ascending order of partition. The first step reads the
        list of partitions. The offsets of a block are read when the block is yielded."""
        columns = self._groups.get(group_id, {}).get(topic)
        if columns is not None:
            partitions = columns.partitions()
            for first in range(0, len(partitions), at_most):
                yield columns.commits(partitions[first : first + at_most])

    def columns(self, group_id: str) -> list[tuple[str, TopicColumns]]:
        """Returns each topic of the group with the current columns of its offsets, for
        snapshots."""
        return list(self._groups.get(group_id, {}).items())

    def keys(self, group_id: str) -> list[tuple[str, int]]:
        return [
            (topic, partition)
            for topic, columns in self._groups.get(group_id, {}).items()
            for partition in columns.partitions()
        ]

    def partitions(self, group_id: str, topic: str) -> list[int]:
        """Returns the partitions of a topic in which the group has offsets, in ascending order."""
        columns = self._groups.get(group_id, {}).get(topic)
        return [] if columns is None else columns.partitions()

    def has_more_than(self, group_id: str, count: int) -> bool:
        for columns in self._groups.get(group_id, {}).values():
            count -= columns.count
            if count < 0:
                return True
        return False

    # A deletion also removes pending offsets, so that a marker can't restore them.

    def groups_to_delete_from(self) -> list[str]:
        """Returns the groups with committed or pending offsets."""
        return list(dict.fromkeys((*self._groups, *self.pending.groups())))

    def topics_to_delete(self, group_id: str) -> list[str]:
        """Returns the topics in which the group has committed or pending offsets."""
        committed = self._groups.get(group_id, {})
        return list(dict.fromkeys((*committed, *self.pending.topics(group_id))))

    def to_delete(self, group_id: str, topic: str) -> list[int]:
        """Returns the partitions of a topic in which the group has committed or pending offsets, in
        ascending order."""
        committed = self.partitions(group_id, topic)
        pending = self.pending.producers(group_id, topic)
        return sorted({*committed, *pending}) if pending else committed

    def deletable(
        self, group_id: str, topic: str, partitions: Sequence[int], log_offset: int
    ) -> list[int]:
        """Returns those of ``partitions`` whose committed and pending offsets were all written
        below the log offset ``log_offset``. A partition with a later pending offset is left out,
        because a tombstone for this partition would also drop the pending offset."""
        columns = self._groups.get(group_id, {}).get(topic)
        found = [] if columns is None else columns.written_below(partitions, log_offset)
        if group_id not in self.pending.groups():
            return found
        return self.pending.deletable(group_id, topic, partitions, found, log_offset)

    def entries(self, group_id: str) -> Iterator[tuple[str, int, CachedOffset]]:
        """Yields the topic, the partition and the fields of every offset of the group."""
        for topic, columns in self._groups.get(group_id, {}).items():
            for partition in columns.partitions():
                entry = columns.get(partition)
                if entry is not None:
                    yield topic, partition, CachedOffset(*entry)

    def may_expire(
        self, group_id: str, topic: str, rule: ExpiryRule, retention_ms: int, until_ms: int
    ) -> bool:
        """Returns False if no offset in a topic can expire by ``until_ms``. Reads only one column,
        so it may return True although no offset expires."""
        columns = self._groups.get(group_id, {}).get(topic)
        if columns is None:
            return False
        return may_expire(topic, columns.commits_not_before_ms(), rule, retention_ms, until_ms)

    def due(
        self,
        group_id: str,
        topic: str,
        partitions: Sequence[int],
        rule: ExpiryRule,
        retention_ms: int,
        until_ms: int,
    ) -> Iterator[tuple[int, int]]:
        """Yields (partition, expiry time) for each of the ``partitions`` whose offset may expire by
        ``until_ms``.

        Offsets that an open transaction may change are omitted, as in Kafka. ``partitions`` must
        ascend without repeats. The expiry time is the same as in `expiring`.
        """
        columns = self._groups.get(group_id, {}).get(topic)
        if columns is None or topic in rule.kept_topics:
            return
        pending = self.pending.producers(group_id, topic)
        for partition, _, commit_ms, expire_ms in columns.commits(partitions):
            at_ms = expires_at(rule, commit_ms, expire_ms, retention_ms=retention_ms)
            if at_ms <= until_ms and partition not in pending:
                yield partition, at_ms

    def expiring(
        self, group_id: str, condition: GroupCondition, retention_ms: int, until_ms: int
    ) -> Iterator[tuple[str, int, int, int, int]]:
        """Yields (topic, partition, expiry time, commit time, expire timestamp) for each offset
        that may expire by ``until_ms``.

        Offsets that an open transaction may change are omitted. The expiry time, in wall
        milliseconds, is a lower bound: the offset expires at this time unless a later event delays
        the expiry.
        """
        rule = rule_for(condition)
        if rule is None:
            return
        for topic, columns in self._candidates(group_id, rule, retention_ms, until_ms):
            pending = self.pending.producers(group_id, topic)
            for partition, commit_ms, expire_ms in columns.stamps():
                at_ms = expires_at(rule, commit_ms, expire_ms, retention_ms=retention_ms)
                if at_ms <= until_ms and partition not in pending:
                    yield topic, partition, at_ms, commit_ms, expire_ms

    def _candidates(
        self, group_id: str, rule: ExpiryRule, retention_ms: int, until_ms: int
    ) -> Iterator[tuple[str, TopicColumns]]:
        """Yields the topics of a group in which an offset may expire by ``until_ms``. This check is
        fast and not exact: it reads only the commit timestamps."""
        for topic, columns in self._groups.get(group_id, {}).items():
            if may_expire(topic, columns.commits_not_before_ms(), rule, retention_ms, until_ms):
                yield topic, columns

    def count(self) -> int:
        return self._count
