"""The results of the steps of a shard of transactional ids: records to append, replies and events.

Replies have no versions, because the broker encodes them. The broker replaces PRODUCER_FENCED (90)
by INVALID_PRODUCER_EPOCH (47) in request versions without error 90. A reply that consists only of
an error code is an int.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from protocol.slotted import slotted
from transactions.calls import Partitions, Ticket
from transactions.events import Event
from transactions.values import TransactionRun


class InitReply(NamedTuple):
    """The reply to InitProducerId. If it has an error, producer id and epoch are -1."""

    error_code: int
    producer_id: int = -1
    producer_epoch: int = -1


class EndReply(NamedTuple):
    """The reply to EndTxn. With TV2, it has the producer id and epoch for the next transaction.
    With TV1 or an error, both are -1."""

    error_code: int
    producer_id: int = -1
    producer_epoch: int = -1


class DescribeReply(NamedTuple):
    """The reply about one transactional id of a DescribeTransactions request, with the fields of
    the response."""

    error_code: int
    transactional_id: str
    state: str = ""
    timeout_ms: int = 0
    start_ms: int = -1
    producer_id: int = -1
    producer_epoch: int = -1
    partitions: Partitions = ()


class ListedTransaction(NamedTuple):
    """A transactional id in a ListTransactions reply."""

    transactional_id: str
    producer_id: int
    state: str


class ListReply(NamedTuple):
    """The reply of one shard to ListTransactions."""

    error_code: int
    transactions: Sequence[ListedTransaction] = ()


@slotted(frozen=True)
class SendMarkers:
    """The markers that must be written to end a transaction.

    The ``marker_sender`` receives this value as a reply when the Prepare record is stable, because
    a marker before its Prepare record would break atomicity. After each load the shard sends it
    again. The marker sender responds with `MarkersWritten` or `MarkersRefused`. The broker adds the
    coordinator epoch, which is the leader epoch of the shard's partition.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    """The epoch of the markers. With TV1 it is the epoch of the transaction, with TV2 the next
    epoch."""
    committed: bool
    rules: int
    """TV1 or TV2, for the field transaction_version of WriteTxnMarkers. TV1 is sent as 0."""
    partitions: Partitions


Reply = int | Sequence[int] | InitReply | EndReply | DescribeReply | ListReply | SendMarkers


class Outcome(NamedTuple):
    """The result of one step. The caller appends ``records``, sends ``replies`` when the records
    are stable, and then emits ``events``."""

    records: Sequence[TransactionRun] = ()
    replies: Sequence[tuple[Ticket, Reply]] = ()
    events: Sequence[Event] = ()
