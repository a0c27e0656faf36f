"""The states of a transactional id and their transitions, on one page.

This module defines the states, their names and the legal transitions between them. The state of a
transactional id changes only in ``Transaction.transition_to``; every handler reads a table of
``tables.py`` that has every state.

             InitProducerId            first partition             EndTxn
    (none) ----------------> EMPTY ---------------------> ONGOING --------> PREPARE_COMMIT
                              ^  |                         ^  |   |                |
                              |  | expiry                  |  |   | EndTxn,        | all markers
                              |  v                         |  |   | timeout,       v
                              | DEAD <- expiry -+----------+  |   | fencing   COMPLETE_COMMIT
                              |                 |             |   v
                              +-----------------+- COMPLETE_ABORT <- PREPARE_ABORT
                               InitProducerId                   all markers

Error codes below: 48 INVALID_TXN_STATE, 49 INVALID_PRODUCER_ID_MAPPING, 51 CONCURRENT_TRANSACTIONS,
90 PRODUCER_FENCED, 120 TRANSACTION_ABORTABLE. The text below is about the producer that owns the
id: a request with another producer id gets 49, a request with another epoch gets 90. TV1 and TV2
are the rules of a client: TV2 raises the epoch with each end (KIP-890).
"""

from __future__ import annotations

from enum import Enum


class State(Enum):
    """The state of a transactional id; the value is its byte in the log and its name on the
    wire."""

    number: int
    wire_name: str

    __hash__ = object.__hash__  # Enum hashes the name, 38 times per transaction

    def __new__(cls, number: int, wire_name: str) -> State:
        state = object.__new__(cls)
        state._value_ = number
        state.number = number
        state.wire_name = wire_name
        return state

    EMPTY = (0, "Empty")
    """A producer owns the id, and has not begun a transaction since InitProducerId.

    *Action*: InitProducerId returns the next epoch, or the current epoch to a retry with the
    previous epoch (KIP-360); after the last epoch, another producer id. AddPartitions begins a
    transaction. The check of a partition gets 120. EndTxn gets 48, except that ABORT by TV2 gets 0
    and the next epoch, because a client whose produce failed can't know whether a transaction was
    begun.

    *Transition*: the first partition -> ONGOING. ABORT by TV2 -> PREPARE_ABORT without partitions.
    InitProducerId -> EMPTY. Not used for transactional.id.expiration.ms -> DEAD.
    """

    ONGOING = (1, "Ongoing")
    """A transaction is open. Its timeout runs by the wall clock, unless the transaction has none
    (KIP-939).

    *Action*: InitProducerId fences the producer and gets 51: the client retries until the abort is
    complete. AddPartitions gets 0, and writes no record if no partition is new. The check of a
    partition gets 0 if the partition is in the transaction, else 120. EndTxn gets 0; under TV2 also
    the next epoch or, after the last epoch, another producer id and epoch 0.

    *Transition*: EndTxn -> PREPARE_COMMIT or PREPARE_ABORT. InitProducerId, or the timeout ->
    PREPARE_ABORT with the next epoch. More partitions -> ONGOING.
    """

    PREPARE_COMMIT = (2, "PrepareCommit")
    """The transaction is committed; its markers are being written, again after each load.

    *Action*: InitProducerId, AddPartitions and EndTxn get 51, regardless of the producer in the
    request (except that EndTxn of TV1 checks the producer first). The check of a partition gets 51.
    The client retries.

    *Transition*: all markers are written or rejected -> COMPLETE_COMMIT. No other.
    """

    PREPARE_ABORT = (3, "PrepareAbort")
    """The transaction is aborted: by its client, by its timeout, or by a newer producer.

    *Action*: as in PREPARE_COMMIT.

    *Transition*: all markers are written or rejected -> COMPLETE_ABORT. No other.
    """

    COMPLETE_COMMIT = (4, "CompleteCommit")
    """The last transaction was committed, and no other transaction has begun.

    *Action*: as EMPTY, except for EndTxn. TV1: COMMIT gets 0, ABORT 48. TV2: the epoch identifies
    the transaction that the client ends. With the previous epoch, whose reply was lost, COMMIT gets
    0 and the current values, ABORT 48; with the current epoch COMMIT gets 48, and ABORT is handled
    as in EMPTY.

    *Transition*: as EMPTY."""

    COMPLETE_ABORT = (5, "CompleteAbort")
    """The last transaction was aborted, and no other transaction has begun.

    *Action*: as EMPTY, except for EndTxn. TV1: ABORT gets 0, COMMIT 48. TV2 with the previous
    epoch: ABORT gets 0 and the current values, COMMIT 90, because only a timeout aborts a
    transaction that its client commits. TV2 with the current epoch: COMMIT gets 48, and ABORT is
    handled as in EMPTY.

    *Transition*: as EMPTY.
    """

    DEAD = (6, "Dead")
    """The id has expired: a tombstone is in the log, and the shard has removed the id. This state
    is never written to the log.

    *Action*: every request gets 49, as for an unknown id, except that InitProducerId creates the id
    again, and DescribeTransactions gets TRANSACTIONAL_ID_NOT_FOUND.

    *Transition*: none."""


BY_NUMBER: dict[int, State] = {state.number: state for state in State}
"""The states by their byte in the log."""

LEGAL_PREVIOUS: dict[State, frozenset[State]] = {
    State.EMPTY: frozenset({State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT}),
    State.ONGOING: frozenset(
        {State.ONGOING, State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT}
    ),
    State.PREPARE_COMMIT: frozenset({State.ONGOING}),
    State.PREPARE_ABORT: frozenset(
        {State.ONGOING, State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT}
    ),
    State.COMPLETE_COMMIT: frozenset({State.PREPARE_COMMIT}),
    State.COMPLETE_ABORT: frozenset({State.PREPARE_ABORT}),
    State.DEAD: frozenset({State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT}),
}
"""The states from which each state may be entered."""

PREPARED = frozenset({State.PREPARE_COMMIT, State.PREPARE_ABORT})
"""The states in which markers are being written."""

OPEN = PREPARED | {State.ONGOING}
"""The states in which a transaction is open."""
