"""Calls: the decoded requests that a shard of transactional ids handles.

A call has no versions or bytes: the caller translates the differences between versions into the
fields below. The caller also handles empty and null transactional ids, authorization and unknown
topics. ``ticket`` is opaque to the core, which returns the ticket with the reply.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from protocol.slotted import slotted

Ticket = Any
Partitions = Sequence[tuple[str, Sequence[int]]]
"""Topics with their partition numbers."""

TV1, TV2 = 1, 2
"""The transaction protocol of a client: TV2 includes part 2 of KIP-890, TV1 does not."""


CLIENT_CHARACTERS = 128
"""The number of characters to which client ids and hosts are truncated, because the client chooses
their length."""


class Client(NamedTuple):
    """The sender of a call, for the journal; both fields are "" for the broker itself."""

    client_id: str = ""
    host: str = ""


BROKER = Client()


@slotted
class InitProducerId:
    """InitProducerId v0 to v6 with a transactional id. The reply is an InitReply."""

    ticket: Ticket
    transactional_id: str
    timeout_ms: int
    producer_id: int
    """The client's current producer id (KIP-360); -1 if the client has none."""
    producer_epoch: int
    client: Client = BROKER


@slotted
class AddPartitions:
    """AddPartitionsToTxn, AddOffsetsToTxn, or the partitions that a TV2 Produce or TxnOffsetCommit
    adds to its transaction.

    Partitions of the offsets topic are included like other partitions. The reply is one error code
    for all partitions.
    """

    ticket: Ticket
    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: Partitions
    rules: int
    """TV1 or TV2."""
    client: Client = BROKER
    group_id: str = ""
    """The group whose offsets partition is added, for the journal."""


@slotted
class VerifyPartitions:
    """Asks whether partitions are in the transaction, for a Produce of TV1 (KIP-890).

    The reply is an error code for each partition in order: 0, TRANSACTION_ABORTABLE (120), or an
    error that applies to all partitions.
    """

    ticket: Ticket
    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: Partitions


@slotted
class EndTransaction:
    """EndTxn; versions from v5 on are TV2, earlier versions TV1. The reply is an EndReply."""

    ticket: Ticket
    transactional_id: str
    producer_id: int
    producer_epoch: int
    committed: bool
    rules: int
    client: Client = BROKER


@slotted
class MarkersWritten:
    """All markers of a `SendMarkers` are stable, except for partitions that do not exist.

    The reply is an error code.
    """

    ticket: Ticket
    transactional_id: str
    producer_id: int
    producer_epoch: int
    """The producer epoch of the markers."""


@slotted
class MarkersRefused:
    """Some partitions rejected their markers with INVALID_PRODUCER_EPOCH (47).

    In these partitions the transaction was ended under a newer epoch. The markers of the other
    partitions are written. The reply is an error code.
    """

    ticket: Ticket
    transactional_id: str
    producer_id: int
    producer_epoch: int
    error_code: int


@slotted
class DescribeTransaction:
    """One transactional id of a DescribeTransactions request. The reply is a DescribeReply."""

    ticket: Ticket
    transactional_id: str


@slotted
class ListTransactions:
    """A ListTransactions request for one shard; an empty filter matches all ids. The reply is a
    ListReply."""

    ticket: Ticket
    states: frozenset[str]
    """State names as on the wire; an unknown state name does not match any id."""
    producer_ids: frozenset[int]
    duration_ms: int
    """The filter of open transactions: only those that have been open for more than this many
    milliseconds (wall time). A value below 0 matches all transactions."""
    among: Sequence[str] | None = None
    """The transactional ids that are searched; None searches all ids."""


Call = (
    InitProducerId
    | AddPartitions
    | VerifyPartitions
    | EndTransaction
    | MarkersWritten
    | MarkersRefused
    | DescribeTransaction
    | ListTransactions
)
