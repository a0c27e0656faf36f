"""The settings that a shard of transactional ids reads, in Kafka's units."""

from __future__ import annotations

from dataclasses import field

from protocol.slotted import slotted
from transactions.calls import Ticket
from transactions.producer_ids import ProducerIds


@slotted(frozen=True)
class TransactionConfig:
    """The settings of a shard; the defaults are Kafka's."""

    marker_sender: Ticket
    """The ticket that receives a `SendMarkers` whenever a Prepare record is stable."""
    producer_ids: ProducerIds = field(default_factory=ProducerIds)
    """The reserved producer ids that were not used yet, shared by all shards."""
    transaction_version: int = 2
    """The level of the feature transaction.version, which selects the version of the log's values,
    and the protocol for transactions that the coordinator itself ends."""
    max_timeout_ms: int = 900_000
    """transaction.max.timeout.ms"""
    expiration_ms: int = 604_800_000
    """transactional.id.expiration.ms"""
    abort_interval_ms: int = 10_000
    """transaction.abort.timed.out.transaction.cleanup.interval.ms"""
    expire_interval_ms: int = 3_600_000
    """transaction.remove.expired.transaction.cleanup.interval.ms"""
    max_record_bytes: int = 1_048_588
    """max.message.bytes of ``__transaction_state``: the largest batch."""
