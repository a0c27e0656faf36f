"""The offsets of open transactions. They are in the log, but invisible until the transaction's
marker is written.

A producer's pending offsets are stored in columns per (group, topic) with their log offsets, as
committed offsets are. A COMMIT marker moves the pending offsets to the cache, an ABORT marker drops
them. A load rebuilds pending offsets from the log. Their number is bounded: the transaction
coordinator ends each transaction at its timeout, and a producer has at most one pending offset per
partition, however often it commits.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from offsets.columns import TopicColumns
from offsets.runs import OffsetRun, OffsetTombstones, TransactionalRun

_NOBODY: Mapping[int, tuple[int, ...]] = {}


class PendingTopic(NamedTuple):
    """The pending offsets of one group in one topic, and their producers."""

    columns: dict[int, TopicColumns]
    """The pending offsets by producer id. Producers without a pending offset are removed."""
    producers: dict[int, tuple[int, ...]]
    """The ids of the producers with a pending offset, by partition. Usually a partition has one
    producer."""


_NO_TOPIC = PendingTopic({}, {})


class PendingOfProducer(NamedTuple):
    """The pending offsets of one transaction in a group."""

    producer_id: int
    producer_epoch: int
    offsets: int


class PendingOffsets:
    """The pending offsets of the groups of one partition of ``__consumer_offsets``."""

    __slots__ = ("_count", "_epochs", "_groups", "_producers")

    def __init__(self) -> None:
        self._groups: dict[str, dict[str, PendingTopic]] = {}
        """The pending offsets by group and topic. Groups and topics without a pending offset are
        removed."""
        self._producers: dict[int, dict[tuple[str, str], TopicColumns]] = {}
        """The pending offsets of each producer id, by (group, topic). The columns are the same
        objects as in ``_groups``."""
        self._epochs: dict[int, int] = {}
        """The producer epoch of each producer's last write."""
        self._count = 0

    # ------------------------------------------------------------------------------ the writers

    def replay(self, run: TransactionalRun, base_offset: int) -> None:
        """Stores the offsets of a TxnOffsetCommit. A later offset of the same transaction replaces
        an earlier one."""
        for each in run.runs:
            if each.partitions:
                columns = self._columns_for(run.producer_id, each.group_id, each.topic)
                self._count += columns.store(each, base_offset)
                self._note(run.producer_id, each.group_id, each.topic, each.partitions)
                self._epochs[run.producer_id] = run.producer_epoch
            base_offset += len(each)

    def restore(
        self,
        producer_id: int,
        producer_epoch: int,
        group_id: str,
        topic: str,
        columns: TopicColumns,
    ) -> None:
        """Loads columns from a snapshot. Raises KeyError if the producer already has columns in the
        (group, topic)."""
        if (group_id, topic) in self._producers.get(producer_id, {}):
            raise KeyError(topic)
        self._insert(producer_id, group_id, topic, columns)
        self._count += columns.count
        self._note(producer_id, group_id, topic, columns.partitions())
        self._epochs[producer_id] = producer_epoch

    def end(self, producer_id: int) -> Iterable[tuple[tuple[str, str], TopicColumns]]:
        """Removes and returns the pending offsets of a producer, because its transaction marker was
        written."""
        self._epochs.pop(producer_id, None)
        ended = self._producers.pop(producer_id, None)
        if ended is None:
            return ()
        for (group_id, topic), columns in ended.items():
            of_topic = self._groups[group_id][topic]
            self._count -= columns.count
            del of_topic.columns[producer_id]
            for partition in columns.partitions() if of_topic.columns else ():
                _leave(of_topic.producers, partition, producer_id)
            self._drop_if_empty(group_id, topic, of_topic)
        return ended.items()

    def remove(self, run: OffsetTombstones) -> None:
        """Removes the pending offsets of all producers for each deleted (topic, partition)."""
        group_id = run.group_id
        topics = self._groups.get(group_id)
        if topics is None:
            return
        for topic, partition in run.keys:
            of_topic = topics.get(topic)
            producers = None if of_topic is None else of_topic.producers.pop(partition, None)
            if of_topic is None or producers is None:
                continue
            for producer_id in producers:
                columns = of_topic.columns[producer_id]
                columns.remove(partition)
                self._count -= 1
                if not columns.count:
                    del of_topic.columns[producer_id]
                    self._forget(producer_id, group_id, topic)
            self._drop_if_empty(group_id, topic, of_topic)

    def _columns_for(self, producer_id: int, group_id: str, topic: str) -> TopicColumns:
        columns = self._producers.get(producer_id, {}).get((group_id, topic))
        return columns or self._insert(producer_id, group_id, topic, TopicColumns())

    def _insert(
        self, producer_id: int, group_id: str, topic: str, columns: TopicColumns
    ) -> TopicColumns:
        of_topic = self._groups.setdefault(group_id, {}).get(topic)
        if of_topic is None:
            of_topic = self._groups[group_id][topic] = PendingTopic({}, {})
        of_topic.columns[producer_id] = columns
        self._producers.setdefault(producer_id, {})[group_id, topic] = columns
        return columns

    def _note(self, producer_id: int, group_id: str, topic: str, partitions: Iterable[int]) -> None:
        producers = self._groups[group_id][topic].producers
        alone = (producer_id,)
        for partition in partitions:
            there = producers.setdefault(partition, alone)
            if producer_id not in there:
                producers[partition] = (*there, producer_id)

    def _forget(self, producer_id: int, group_id: str, topic: str) -> None:
        """Removes a producer's entry for a topic of a group, in which the producer has no pending
        offset left. If this was the last entry of the producer, removes the producer."""
        of_producer = self._producers[producer_id]
        del of_producer[group_id, topic]
        if not of_producer:
            del self._producers[producer_id]
            del self._epochs[producer_id]

    def _drop_if_empty(self, group_id: str, topic: str, of_topic: PendingTopic) -> None:
        if not of_topic.columns:
            topics = self._groups[group_id]
            del topics[topic]
            if not topics:
                del self._groups[group_id]

    # ----------------------------------------------------------------------------- the readers

    def groups(self) -> Collection[str]:
        """Returns the ids of the groups with pending offsets. The collection is a live view,
        invalid after a ``replay``."""
        return self._groups.keys()

    def topics(self, group_id: str) -> Collection[str]:
        """Returns the topics in which the group has pending offsets. The collection is a live view,
        invalid after a ``replay``."""
        return self._groups.get(group_id, {}).keys()

    def producers(self, group_id: str, topic: str) -> Mapping[int, tuple[int, ...]]:
        """Returns the ids of the producers with a pending offset, by partition, as a live view."""
        topics = self._groups.get(group_id)
        of_topic = None if topics is None else topics.get(topic)
        return _NOBODY if of_topic is None else of_topic.producers

    def of_producer(self, producer_id: int) -> Iterable[tuple[tuple[str, str], TopicColumns]]:
        """Returns each (group, topic) in which a producer has pending offsets, with the columns of
        these offsets, as a live view."""
        return self._producers.get(producer_id, {}).items()

    def of_group(self, group_id: str) -> list[PendingOfProducer]:
        """Returns the open transactions with pending offsets of the group, each with its number of
        offsets."""
        counts: dict[int, int] = {}
        for of_topic in self._groups.get(group_id, {}).values():
            for producer_id, columns in of_topic.columns.items():
                counts[producer_id] = counts.get(producer_id, 0) + columns.count
        return [
            PendingOfProducer(producer_id, self._epochs[producer_id], count)
            for producer_id, count in sorted(counts.items())
        ]

    def columns(self) -> Iterator[tuple[int, int, str, str, TopicColumns]]:
        """Yields (producer id, producer epoch, group, topic, columns) for all pending offsets, for
        a snapshot. The list of producers is fixed when the iteration begins. The offsets of a
        producer are read when the iteration reaches the producer."""
        for producer_id in list(self._producers):
            epoch = self._epochs.get(producer_id, -1)
            for (group_id, topic), columns in list(self.of_producer(producer_id)):
                yield producer_id, epoch, group_id, topic, columns

    def deletable(
        self,
        group_id: str,
        topic: str,
        partitions: Sequence[int],
        committed: Collection[int],
        log_offset: int,
    ) -> list[int]:
        """Returns those of ``partitions`` that meet two conditions. The partition has a committed
        offset (it is in ``committed``) or pending offsets. All its pending offsets were written
        before ``log_offset``."""
        of_topic = self._groups.get(group_id, {}).get(topic, _NO_TOPIC)
        there = set(committed)
        found = []
        for partition in partitions:
            producers = of_topic.producers.get(partition, ())
            if all(
                of_topic.columns[each].written_below((partition,), log_offset) for each in producers
            ) and (producers or partition in there):
                found.append(partition)
        return found

    def __bool__(self) -> bool:
        return bool(self._producers)

    def count(self) -> int:
        """Returns the number of pending offsets. A partition counts once for each producer with a
        pending offset in the partition."""
        return self._count


def below(columns: TopicColumns, log_offset: int) -> TopicColumns:
    """Returns the offsets in ``columns`` whose records are before ``log_offset`` in the log.
    Returns ``columns`` itself if it contains no other offsets."""
    partitions = columns.partitions()
    found = columns.written_below(partitions, log_offset)
    if len(found) == len(partitions):
        return columns
    older = TopicColumns()
    for partition in found:
        entry = columns.get(partition)
        assert entry is not None
        offset, epoch, text, commit_ms, expire_ms, at = entry
        texts = [text] if text else None
        one = OffsetRun("", "", [partition], [offset], [epoch], texts, commit_ms, expire_ms)
        older.store(one, at)
    return older


def _leave(producers: dict[int, tuple[int, ...]], partition: int, producer_id: int) -> None:
    rest = tuple([each for each in producers[partition] if each != producer_id])
    if rest:
        producers[partition] = rest
    else:
        del producers[partition]
