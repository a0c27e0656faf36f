"""The results of the steps of a shard of transactional ids: records that must be appended, replies
and events.

Replies are values without versions; the broker encodes them, and replaces PRODUCER_FENCED (90) by
INVALID_PRODUCER_EPOCH (47) for request versions without error 90. A reply that consists only of an
error code is an int.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from protocol.slotted import slotted
from transactions.calls import Partitions, Ticket
from transactions.events import Event
from transactions.values import TransactionRun


class InitReply(NamedTuple):
    """The reply to InitProducerId; producer id and epoch are -1 with an error."""

    error_code: int
    producer_id: int = -1
    producer_epoch: int = -1


class EndReply(NamedTuple):
    """The reply to EndTxn. Under TV2, producer id and epoch are those for the next transaction;
    under TV1 or with an error, both are -1."""

    error_code: int
    producer_id: int = -1
    producer_epoch: int = -1


class DescribeReply(NamedTuple):
    """The reply to one id of a DescribeTransactions, with the fields of the message."""

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
    """The reply to ListTransactions of one shard."""

    error_code: int
    transactions: Sequence[ListedTransaction] = ()


@slotted(frozen=True)
class SendMarkers:
    """The markers to send. The ``marker_sender`` gets this value as a reply when the Prepare record
    is stable.

    A marker before its Prepare record would break atomicity. After each load the markers are sent
    again. The sender answers with `MarkersWritten` or `MarkersRefused`. The broker adds the
    coordinator epoch, which is the leader epoch of the shard's partition.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    """The epoch of the markers: with TV1 the transaction's epoch, with TV2 the next epoch."""
    committed: bool
    rules: int
    """TV1 or TV2: the transaction_version of WriteTxnMarkers; TV1 is sent as 0."""
    partitions: Partitions


Reply = int | Sequence[int] | InitReply | EndReply | DescribeReply | ListReply | SendMarkers


class Outcome(NamedTuple):
    """The result of one step. The caller appends ``records``, releases ``replies`` when the records
    are stable, and emits ``events``, in this order."""

    records: Sequence[TransactionRun] = ()
    replies: Sequence[tuple[Ticket, Reply]] = ()
    events: Sequence[Event] = ()
