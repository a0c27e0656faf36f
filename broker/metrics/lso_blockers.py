"""Finds the transactions that hold back the last stable offset (LSO) of a partition, and the groups
that wait for these transactions.

A partition knows the producer id of its oldest open transaction, and the coordinator knows the
transactional id of this producer. If no transactional id has this transaction open, the transaction
hangs, and only an operator can end it. No transaction counts as hanging while this broker does not
know all transactional ids: while ids are being loaded or can't be read, or if other brokers
coordinate some ids. `LsoBlockers.refresh` collects the ids in steps. `LsoBlockers.of` uses the ids
of the last `refresh`.

A Fetch request does not name a group. But if a group's committed offset equals the LSO, and the log
has records after the LSO, the group waits for the transaction that begins there. The scan of the
groups, every few seconds, detects such groups. The journal of transactions records which groups
waited, and for how long.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from broker.cores.hosted_shard import LOADED
from broker.cores.transactions.runtime import TransactionRuntime
from broker.time import Time
from broker.topics.partition import Partition
from journal.texts import Source
from transactions.calls import BROKER, Client
from transactions.journal import Journal
from transactions.journal_entries import Reader, Story
from transactions.states import State
from transactions.transaction import Transaction
from verdicts.facts import GroupFacts, HoldFacts, PartitionFacts

STEP = 500
"""The maximum number of open transactions that one step of `LsoBlockers.refresh` collects."""


class LsoBlocker(NamedTuple):
    """The oldest open transaction of a partition."""

    transactional_id: str | None
    """The transactional id of the producer; None if this broker does not know it."""
    producer_id: int
    producer_epoch: int
    start_offset: int
    """The offset of the transaction's first record, which is the last stable offset of the
    partition."""
    since_ms: int
    """The wall time at which the first partition was added to the transaction. If
    ``transactional_id`` is None, the wall time of the producer's last record."""
    ends_ms: int | None
    """The wall time at which the transaction times out; None if its outcome is already decided, or
    if ``transactional_id`` is None."""
    state: str | None
    """The state of the transaction at its coordinator; None if ``transactional_id`` is None."""
    client: Client
    """The client that sent the last request about the transaction."""
    hangs: bool = False
    """True if no transactional id has the transaction open, so that only an operator can end it."""
    is_elsewhere: bool = False
    """True if another broker may coordinate the transaction."""


class LsoBlockers:
    """Finds the transactions that hold back the last stable offset of partitions."""

    def __init__(
        self, transactions: TransactionRuntime, partition_count: Callable[[], int], time: Time
    ) -> None:
        """Creates the object; ``partition_count`` returns the number of partitions of
        ``__transaction_state``."""
        self._transactions = transactions
        self._time = time
        self._partition_count = partition_count
        self._by_producer: dict[int, Transaction] = {}
        self._has_all = False
        """True if this broker has loaded the shards of all partitions of ``__transaction_state``.
        """
        self._has_others = False
        """True if other brokers lead partitions of ``__transaction_state``."""

    def refresh(self) -> Iterator[int]:
        """Collects the open transactions by producer id, in steps. Yields the size of each step."""
        found: dict[int, Transaction] = {}
        hosted_shards = list(self._transactions.hosted_shards)
        self._has_others = len(hosted_shards) < self._partition_count()
        has_all = not self._has_others
        for hosted in hosted_shards:
            has_all &= hosted.phase in LOADED
            view = hosted.core.view
            names = list(view.open())
            for start in range(0, len(names), STEP):
                for name in names[start : start + STEP]:
                    each = view.get(name)
                    if each is not None:
                        found[each.producer_id] = each
                yield STEP
        self._by_producer, self._has_all = found, has_all

    def transactional_id_of(self, producer_id: int) -> str | None:
        """Returns the transactional id of a producer; None if the producer had no open transaction
        at the last refresh."""
        known = self._by_producer.get(producer_id)
        return None if known is None else known.transactional_id

    def of(self, partition: Partition) -> LsoBlocker | None:
        """Returns the transaction that holds back the last stable offset of a partition; None if
        the offset is not held back."""
        log = partition.log
        stable = partition.last_stable_offset
        if stable >= partition.high_watermark:
            return None
        first = next(iter(log.producers.open_transactions.items()), None)
        if first is None:
            return None
        producer_id, start = first[0], max(first[1], log.log_start_offset)
        known = self._by_producer.get(producer_id)
        is_open = known is not None and known.is_open
        if known is not None and is_open and _has(known, partition):
            return LsoBlocker(
                known.transactional_id,
                producer_id,
                known.producer_epoch,
                start,
                known.start_ms,
                known.start_ms + known.timeout_ms if known.state is State.ONGOING else None,
                known.state.wire_name,
                known.client,
            )
        producer = log.producers.get(producer_id)
        epoch = -1 if producer is None else producer.epoch
        since_ms = self._time.now().wall_ms if producer is None else producer.last_timestamp_ms
        whose = (None, None, BROKER, is_open or self._has_all, not is_open and self._has_others)
        return LsoBlocker(None, producer_id, epoch, start, since_ms, *whose)


def _has(known: Transaction, partition: Partition) -> bool:
    """Returns True if the end of the transaction will write a marker to the partition."""
    return any(
        topic == partition.topic and partition.index in ids for topic, ids in known.partitions
    )


class BlockedGroups:
    """Finds the groups that wait for a transaction, and reports them to the journal of
    transactions."""

    def __init__(self, transactions: TransactionRuntime, journal: Journal, time: Time) -> None:
        self._transactions = transactions
        self._journal = journal
        self._time = time

    def see(self, facts: GroupFacts) -> None:
        """Reports to the journal each transaction for which a group waits."""
        if not facts.members and facts.protocol_type:
            return  # a group without members does not wait
        for each in facts.partitions:
            if each.hold is not None and each.hold.transactional_id is not None:
                self._wait(facts, each, each.hold, each.hold.transactional_id)

    def _wait(
        self, facts: GroupFacts, each: PartitionFacts, hold: HoldFacts, transactional_id: str
    ) -> None:
        view = self._transactions.view_of(transactional_id)
        known = None if view is None else view.get(transactional_id)
        if known is None or not known.is_open:
            return
        member = facts.member(each.owner)
        reader = Reader(
            facts.group,
            each.topic,
            each.partition,
            (member.client or "") if member is not None else "",
            (member.host or "") if member is not None else "",
            max(hold.since_ms, each.stands_since_ms or 0),
        )
        now = self._time.now()
        self._journal.wait(transactional_id, story_of(known), reader, now)


def story_of(known: Transaction) -> Story:
    """Returns a new journal entry about an open transaction. Its fields are from the coordinator's
    state of the transaction."""
    story = Story(0, known.producer_id, known.producer_epoch, known.client, known.start_ms)
    story.source = Source.LOG
    story.touch(known.partitions, "")
    return story
