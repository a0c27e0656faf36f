"""The calls that a shard of transactional ids handles. A call is a decoded request.

A call has no versions or bytes: the caller of the shard translates all versions of a request to the
fields below. The caller also handles empty and null transactional ids, authorization and unknown
topics. The core does not interpret ``ticket``, and returns it with the reply.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from protocol.slotted import slotted

Ticket = Any
Partitions = Sequence[tuple[str, Sequence[int]]]
"""Topics, each with partition numbers."""

TV1, TV2 = 1, 2
"""The version of the transaction protocol that a client uses. TV2 includes part 2 of KIP-890, and
TV1 does not."""


CLIENT_CHARACTERS = 128
"""The maximum number of characters that are kept of a client id or a host. The client determines
the length of these texts."""


class Client(NamedTuple):
    """The sender of a call, for the journal. Both fields are "" if the sender is the broker
    itself."""

    client_id: str = ""
    host: str = ""


BROKER = Client()


@slotted
class InitProducerId:
    """An InitProducerId request with a transactional id, in version 0 to 6. The reply is an
    InitReply."""

    ticket: Ticket
    transactional_id: str
    timeout_ms: int
    producer_id: int
    """The current producer id of the client (KIP-360), or -1 if the client has none."""
    producer_epoch: int
    client: Client = BROKER


@slotted
class AddPartitions:
    """Adds partitions to a transaction, for AddPartitionsToTxn, AddOffsetsToTxn, or a Produce or
    TxnOffsetCommit of TV2.

    Partitions of __consumer_offsets are treated like other partitions. The reply is one error code
    for all partitions.
    """

    ticket: Ticket
    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: Partitions
    rules: int
    """The version of the transaction protocol: TV1 or TV2."""
    client: Client = BROKER
    group_id: str = ""
    """For the journal: the group whose partition of __consumer_offsets is added."""


@slotted
class VerifyPartitions:
    """Checks whether partitions are in a transaction, for a Produce of TV1 (KIP-890).

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
    """An EndTxn request. Version 5 and higher is TV2, and lower versions are TV1. The reply is an
    EndReply."""

    ticket: Ticket
    transactional_id: str
    producer_id: int
    producer_epoch: int
    committed: bool
    rules: int
    client: Client = BROKER


@slotted
class MarkersWritten:
    """Reports that the markers of a `SendMarkers` are stable in all of its partitions that exist.
    The core replies with an error code."""

    ticket: Ticket
    transactional_id: str
    producer_id: int
    producer_epoch: int


@slotted
class MarkersRefused:
    """Reports that some partitions rejected their markers with INVALID_PRODUCER_EPOCH (47), because
    a marker with a newer producer epoch had already ended the transaction there. All other markers
    are stable."""

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
    """A ListTransactions request to one shard. An empty filter matches all transactional ids. The
    reply is a ListReply."""

    ticket: Ticket
    states: frozenset[str]
    """State names as in the request. An unknown name matches no transactional id."""
    producer_ids: frozenset[int]
    duration_ms: int
    """Matches only transactions that have been open for more than this number of milliseconds (wall
    time). A negative value matches all transactions."""
    among: Sequence[str] | None = None
    """The transactional ids to search, or None to search all ids."""


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
