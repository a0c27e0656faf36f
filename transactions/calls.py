"""Calls: the decoded requests that a shard of transactional ids handles.

A call has no versions or bytes: the edge translates the differences between versions into the
fields below, and answers the parts that need no transactional id ("" or null, authorization,
unknown topics). ``ticket`` is opaque to the core, which returns it with the reply.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from protocol.slotted import slotted

Ticket = Any
Partitions = Sequence[tuple[str, Sequence[int]]]
"""Topics with their partitions."""

TV1, TV2 = 1, 2
"""The transaction protocol of a client: TV1 is before part 2 of KIP-890, TV2 with it."""


CLIENT_CHARACTERS = 128
"""The edge cuts client ids and hosts, whose length the client chooses, to this many characters."""


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
    """The client's present producer id (KIP-360); -1: none."""
    producer_epoch: int
    client: Client = BROKER


@slotted
class AddPartitions:
    """AddPartitionsToTxn, AddOffsetsToTxn, or partitions that a TV2 Produce or TxnOffsetCommit
    adds.

    Partitions of the offsets topic are named like others. The reply is one error code for all
    partitions.
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

    The reply is a code for each partition in order: 0, TRANSACTION_ABORTABLE (120), or an error
    that holds for all.
    """

    ticket: Ticket
    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: Partitions


@slotted
class EndTransaction:
    """EndTxn: TV2 from v5 on, TV1 below. The reply is an EndReply."""

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
    """Some partitions refused their markers with INVALID_PRODUCER_EPOCH (47).

    The transaction was ended there under a newer epoch. The markers of the other partitions are
    written. The reply is an error code.
    """

    ticket: Ticket
    transactional_id: str
    producer_id: int
    producer_epoch: int
    error_code: int


@slotted
class DescribeTransaction:
    """One id of a DescribeTransactions. The reply is a DescribeReply."""

    ticket: Ticket
    transactional_id: str


@slotted
class ListTransactions:
    """The ids of this shard; an empty filter matches all. The reply is a ListReply."""

    ticket: Ticket
    states: frozenset[str]
    """State names on the wire; a name that is not a state matches nothing."""
    producer_ids: frozenset[int]
    duration_ms: int
    """Only transactions that have been open for longer, in milliseconds (wall time);
    below 0: all."""
    among: Sequence[str] | None = None
    """The ids to consider; None: all."""


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
