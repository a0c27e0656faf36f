"""Defines the core of transactional ids for the runtime: the topic ``__transaction_state``, its
records, and the coordinator's replies."""

from __future__ import annotations

from typing import Any

from broker.cores.core import Kind
from broker.cores.transactions.records import TransactionReader
from broker.topics.partition import NotYetStable
from broker.topics.registry import TRANSACTION_TOPIC
from offsets.partitioner import partition_for
from protocol.slotted import slotted
from transactions.calls import (
    DescribeTransaction,
    EndTransaction,
    ListTransactions,
    VerifyPartitions,
)
from transactions.outcome import SendMarkers
from transactions.record_codec import run_records
from transactions.refusal import loading_error, refusal, timed_out, write_failed
from transactions.shard import TransactionShard

_READS = (VerifyPartitions, DescribeTransaction, ListTransactions)


@slotted(frozen=True)
class StableLater:
    """A reply of a transaction shard. At the deadline of the call, the Prepare record of the
    transaction is in the log but not yet stable, so the ``markers`` must not be sent yet."""

    markers: SendMarkers


def not_stable(reply: Any, error: Exception) -> Any:
    """Returns the reply to send if the record on which ``reply`` depends did not become stable."""
    if not isinstance(error, NotYetStable):
        return write_failed(reply)
    return StableLater(reply) if isinstance(reply, SendMarkers) else timed_out(reply)


TRANSACTIONS = Kind(
    topic=TRANSACTION_TOPIC,
    things="transactional ids",
    new_core=TransactionShard,
    partition_of=partition_for,
    reader=TransactionReader,
    skip_setting="transaction.state.log.load.skip.records",
    encode=run_records,
    refusal=refusal,
    not_served=refusal,
    loading_error=loading_error,
    write_failed=write_failed,
    not_stable=not_stable,
    reads=_READS,
    needs_no_record=_READS,
    sets_no_deadline=_READS,
    counted=EndTransaction,
)
