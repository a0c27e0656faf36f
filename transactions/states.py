"""The machine of a transactional id on one page.

This module owns the states, their names and the legal moves between them. The state of a
transactional id changes only in ``Transaction.transition_to``; every handler has one
``match transaction.state`` with every state written.

             InitProducerId            first partition             EndTxn
    (none) ----------------> EMPTY ---------------------> ONGOING --------> PREPARE_COMMIT
                              ^  |                         ^  |   |                |
                              |  | expiry                  |  |   | EndTxn,        | all markers
                              |  v                         |  |   | timeout,       v
                              | DEAD <- expiry -+----------+  |   | fencing   COMPLETE_COMMIT
                              |                 |             |   v
                              +-----------------+- COMPLETE_ABORT <- PREPARE_ABORT
                               InitProducerId                   all markers

Error codes below: 48 INVALID_TXN_STATE, 51 CONCURRENT_TRANSACTIONS, 90 PRODUCER_FENCED. "cur" is a
request with the epoch that is kept, "retry" one with the epoch before, whose answer was lost.
"""

from __future__ import annotations

from enum import Enum


class State(Enum):
    """The state of a transactional id: its byte in the log, and its name on the wire."""

    number: int
    wire_name: str

    def __new__(cls, number: int, wire_name: str) -> State:  # noqa: D102
        state = object.__new__(cls)
        state._value_ = number
        state.number = number
        state.wire_name = wire_name
        return state

    EMPTY = (0, "Empty")
    ONGOING = (1, "Ongoing")
    PREPARE_COMMIT = (2, "PrepareCommit")
    PREPARE_ABORT = (3, "PrepareAbort")
    COMPLETE_COMMIT = (4, "CompleteCommit")
    COMPLETE_ABORT = (5, "CompleteAbort")
    DEAD = (6, "Dead")


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
"""Those in which markers are being written."""

OPEN = PREPARED | {State.ONGOING}
"""Those in which a transaction is under way."""
