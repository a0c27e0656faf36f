"""The states of a transactional id and their transitions, on one page.

This module defines the states, their names and the legal transitions between them. The state of a
transactional id changes only in ``Transaction.transition_to``. Every handler reads a table of
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

The docstrings of the states describe requests by the producer that owns the id. A request with
another producer id returns INVALID_PRODUCER_ID_MAPPING, and a request with another epoch returns
PRODUCER_FENCED. TV1 and TV2 are the rules of a client: TV2 raises the epoch at each end of a
transaction (KIP-890).
"""

from __future__ import annotations

from enum import Enum


class State(Enum):
    """The state of a transactional id. The value consists of the number in the log and the name in
    responses."""

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

    *Action*: InitProducerId returns the next epoch. To a retry with the previous epoch it returns
    the current epoch (KIP-360). After the last epoch it returns another producer id. AddPartitions
    begins a transaction. The check of a partition returns TRANSACTION_ABORTABLE. EndTxn returns
    INVALID_TXN_STATE, with one exception: ABORT by TV2 succeeds and returns the next epoch, because
    a client whose produce failed cannot know whether a transaction was begun.

    *Transition*: The first partition leads to ONGOING. ABORT by TV2 leads to PREPARE_ABORT without
    partitions. InitProducerId leads to EMPTY. After transactional.id.expiration.ms without use the
    state becomes DEAD.
    """

    ONGOING = (1, "Ongoing")
    """A transaction is open. Its timeout is measured with the wall clock. A transaction of KIP-939
    has no timeout.

    *Action*: InitProducerId fences the producer and returns CONCURRENT_TRANSACTIONS, so the client
    retries until the abort is complete. AddPartitions succeeds, and writes no record if no
    partition is new. The check of a partition succeeds if the partition is in the transaction, or
    else returns TRANSACTION_ABORTABLE. EndTxn succeeds. With TV2 it also returns the next epoch or,
    after the last epoch, another producer id and epoch 0.

    *Transition*: EndTxn leads to PREPARE_COMMIT or PREPARE_ABORT. InitProducerId or the timeout
    lead to PREPARE_ABORT with the next epoch. More partitions lead to ONGOING.
    """

    PREPARE_COMMIT = (2, "PrepareCommit")
    """The transaction is committed, and its markers are being written. After each load of the shard
    they are sent again.

    *Action*: InitProducerId, AddPartitions, EndTxn and the check of a partition return
    CONCURRENT_TRANSACTIONS, regardless of the producer in the request. Only EndTxn of TV1 checks
    the producer first. The client retries.

    *Transition*: When all markers are written or rejected, the state becomes COMPLETE_COMMIT. No
    other transition is possible.
    """

    PREPARE_ABORT = (3, "PrepareAbort")
    """The transaction is aborted: by its client, by its timeout, or by a newer producer. Its
    markers are being written.

    *Action*: The same as in PREPARE_COMMIT.

    *Transition*: When all markers are written or rejected, the state becomes COMPLETE_ABORT. No
    other transition is possible.
    """

    COMPLETE_COMMIT = (4, "CompleteCommit")
    """The last transaction was committed, and no other transaction has begun.

    *Action*: The same as in EMPTY, except for EndTxn. With TV1, COMMIT succeeds, and ABORT returns
    INVALID_TXN_STATE. With TV2, the epoch identifies the transaction to end. The previous epoch
    means that the reply was lost: COMMIT succeeds and returns the current producer id and epoch,
    and ABORT returns INVALID_TXN_STATE. With the current epoch, COMMIT returns INVALID_TXN_STATE,
    and ABORT is handled as in EMPTY.

    *Transition*: The same as in EMPTY.
    """

    COMPLETE_ABORT = (5, "CompleteAbort")
    """The last transaction was aborted, and no other transaction has begun.

    *Action*: The same as in EMPTY, except for EndTxn. With TV1, ABORT succeeds, and COMMIT returns
    INVALID_TXN_STATE. With TV2 and the previous epoch, ABORT succeeds and returns the current
    producer id and epoch; COMMIT returns PRODUCER_FENCED, because only a timeout aborts a
    transaction that its client commits. With TV2 and the current epoch, COMMIT returns
    INVALID_TXN_STATE, and ABORT is handled as in EMPTY.

    *Transition*: The same as in EMPTY.
    """

    DEAD = (6, "Dead")
    """The id has expired: the log has a tombstone, and the shard has removed the id. This state is
    never written to the log.

    *Action*: Every request returns INVALID_PRODUCER_ID_MAPPING, as for an unknown id. Two requests
    differ: InitProducerId creates the id again, and DescribeTransactions returns
    TRANSACTIONAL_ID_NOT_FOUND.

    *Transition*: None.
    """


BY_NUMBER: dict[int, State] = {state.number: state for state in State}
"""The states by their number in the log."""

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
"""For each state, the states from which a transition to it is legal."""

PREPARED = frozenset({State.PREPARE_COMMIT, State.PREPARE_ABORT})
"""The states in which markers are being written."""

OPEN = PREPARED | {State.ONGOING}
"""The states in which a transaction is open."""
