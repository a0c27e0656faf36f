"""The machine of a transactional id on one page.

This module owns the states, their names and the legal moves between them. The state of a
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
90 PRODUCER_FENCED, 120 TRANSACTION_ABORTABLE. The text below is about the producer that has the
id: a request that names another producer id gets 49, one with another epoch 90. TV1 and TV2 are the
rules of a client: TV2 raises the epoch with each end (KIP-890).
"""

from __future__ import annotations

from enum import Enum


class State(Enum):
    """The state of a transactional id: its byte in the log, and its name on the wire."""

    number: int
    wire_name: str

    __hash__ = object.__hash__  # a state is one object; Enum hashes names, 38 a transaction

    def __new__(cls, number: int, wire_name: str) -> State:  # noqa: D102
        state = object.__new__(cls)
        state._value_ = number
        state.number = number
        state.wire_name = wire_name
        return state

    EMPTY = (0, "Empty")
    """A producer has the id, and has no transaction since it took it.

    *Action*: InitProducerId answers one more epoch, or the same where it is asked again with the
    epoch before (KIP-360); after the last epoch another producer id. AddPartitions begins a
    transaction. A partition is in none (120). EndTxn gets 48; but ABORT by TV2 is 0 and the next
    epoch, since a client whose produce failed can't know whether there is a transaction.

    *Transition*: the first partition -> ONGOING. ABORT by TV2 -> PREPARE_ABORT without partitions.
    InitProducerId -> EMPTY. Not used for transactional.id.expiration.ms -> DEAD.
    """

    ONGOING = (1, "Ongoing")
    """A transaction is open. Its timeout runs, by the wall clock, unless it has none (KIP-939).

    *Action*: InitProducerId fences the producer and gets 51: the client comes again when the abort
    is complete. AddPartitions is 0, without a record where nothing is new. A partition is in the
    transaction (0) or is not (120). EndTxn is 0, by TV2 with the next epoch, or with another
    producer id and epoch 0 after the last one.

    *Transition*: EndTxn -> PREPARE_COMMIT or PREPARE_ABORT. InitProducerId, or the timeout ->
    PREPARE_ABORT with one more epoch. More partitions -> ONGOING.
    """

    PREPARE_COMMIT = (2, "PrepareCommit")
    """The transaction is committed; its markers are being written, again after each load.

    *Action*: 51 to InitProducerId, AddPartitions and EndTxn, whatever producer they name (but
    EndTxn of TV1 checks the producer first); 51 to a partition. The client retries.

    *Transition*: each marker is written or refused -> COMPLETE_COMMIT. Nothing else."""

    PREPARE_ABORT = (3, "PrepareAbort")
    """The transaction is aborted: by its client, by its timeout, or by a newer producer.

    *Action*: as PREPARE_COMMIT.

    *Transition*: each marker is written or refused -> COMPLETE_ABORT. Nothing else.
    """

    COMPLETE_COMMIT = (4, "CompleteCommit")
    """The last transaction was committed, and no other has begun.

    *Action*: as EMPTY, except for EndTxn. TV1: COMMIT gets 0, ABORT 48. TV2: the epoch identifies
    the end that the client means. With the epoch before, whose reply was lost, COMMIT gets 0 and
    the current values, ABORT 48; with the current epoch COMMIT gets 48, and ABORT is done as while
    EMPTY.

    *Transition*: as EMPTY."""

    COMPLETE_ABORT = (5, "CompleteAbort")
    """The last transaction was aborted, and no other has begun.

    *Action*: as EMPTY, but EndTxn: ABORT by TV1 is 0, COMMIT 48. By TV2 with the epoch before ABORT
    is 0 and what holds now, COMMIT 90, since only a timeout aborts what is to be committed; with
    the epoch of now COMMIT is 48, and ABORT is done, as while EMPTY.

    *Transition*: as EMPTY.
    """

    DEAD = (6, "Dead")
    """Expired; a tombstone is in the log, and the shard has forgotten the id. Never written as a
    state.

    *Action*: 49 to all, as for an unknown id; but InitProducerId creates the id again, and
    DescribeTransactions reports that it is not found.

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
"""From where each state may be entered."""

PREPARED = frozenset({State.PREPARE_COMMIT, State.PREPARE_ABORT})
"""The states in which markers are being written."""

OPEN = PREPARED | {State.ONGOING}
"""The states in which a transaction is open."""
