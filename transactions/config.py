"""The settings that a shard of transactional ids reads, in Kafka's units."""

from __future__ import annotations

from dataclasses import field

from protocol.slotted import slotted
from transactions.calls import Ticket
from transactions.producer_ids import ProducerIds


@slotted(frozen=True)
class TransactionConfig:
    """The settings of a shard of transactional ids. The defaults are those of Kafka."""

    marker_sender: Ticket
    """The ticket that receives a `SendMarkers` from the shard when a Prepare record is stable."""
    producer_ids: ProducerIds = field(default_factory=ProducerIds)
    """The producer ids that this broker has reserved and not yet used. All shards of the broker
    share them."""
    transaction_version: int = 2
    """The level of the feature transaction.version.

    It determines the version of values in the log, and the protocol (TV1 or TV2) of transactions
    that the coordinator itself ends.
    """
    max_timeout_ms: int = 900_000
    """The broker setting transaction.max.timeout.ms."""
    expiration_ms: int = 604_800_000
    """The broker setting transactional.id.expiration.ms."""
    abort_interval_ms: int = 10_000
    """The broker setting transaction.abort.timed.out.transaction.cleanup.interval.ms."""
    expire_interval_ms: int = 3_600_000
    """The broker setting transaction.remove.expired.transaction.cleanup.interval.ms."""
    max_record_bytes: int = 1_048_588
    """max.message.bytes of ``__transaction_state``, which limits the size of a batch."""
