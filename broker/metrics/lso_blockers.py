"""Who holds readers of committed records back: the transaction at which a partition's LSO stands.

A partition knows the producer of its oldest open transaction, and the coordinator which id that
producer has. One that no id has open there hangs: nobody but an operator will end it. That is not
said while ids may be missing, since they are being loaded, can't be read, or are coordinated by
other brokers.

The ids of producers are gathered from the open transactions by `refresh`, in steps; `of` is quick
and goes by the last of these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from broker.cores.hosted_shard import LOADED
from broker.cores.transactions.runtime import TransactionRuntime
from broker.time import Time
from broker.topics.partition import Partition
from transactions.calls import BROKER, Client
from transactions.states import State
from transactions.transaction import Transaction

STEP = 500
"""Open transactions of one step."""


class LsoBlocker(NamedTuple):
    """The oldest transaction that is open in a partition."""

    transactional_id: str | None
    """None: no id that is known here has this producer."""
    producer_id: int
    producer_epoch: int
    start_offset: int
    """Where it begins, which is the last stable offset."""
    since_ms: int
    """Wall time of its first partition; of its producer's last record where no id is known."""
    ends_ms: int | None
    """When it is aborted at the latest; None where it is decided, or nobody will."""
    state: str | None
    """As the coordinator has it."""
    client: Client
    """Who moved it last."""
    hangs: bool = False
    """Whether no id has it open there, so that nobody but an operator ends it."""
    is_elsewhere: bool = False
    """Whether other brokers coordinate ids too, of which one may have it open."""


class LsoBlockers:
    """See the module."""

    def __init__(
        self, transactions: TransactionRuntime, partition_count: Callable[[], int], time: Time
    ) -> None:
        """``partition_count``: how many partitions ``__transaction_state`` has."""
        self._transactions = transactions
        self._time = time
        self._partition_count = partition_count
        self._by_producer: dict[int, Transaction] = {}
        self._has_all = False
        """Whether no shard was missing: one that loads, can't be read, or is at another broker."""
        self._has_others = False
        """Whether other brokers have shards."""

    def refresh(self) -> Iterator[int]:
        """Gathers whose each producer is; yields how many each step looked at."""
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
        """Whose an open transaction's producer is, as of the last look; None: not known here."""
        known = self._by_producer.get(producer_id)
        return None if known is None else known.transactional_id

    def of(self, partition: Partition) -> LsoBlocker | None:
        """Who holds a partition back; None where nobody does."""
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
    """Whether a transaction has touched a partition, so that its end is one there too."""
    return any(
        topic == partition.topic and partition.index in ids for topic, ids in known.partitions
    )
