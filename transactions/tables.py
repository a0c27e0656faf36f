"""Tables of the reply to each request in each state of a transactional id.

A handler first checks the transactional id, the producer id and the epoch, in the order that its
docstring states. It then reads its table. A number in a table is the error code, and an `Act` is
the action.
"""

from __future__ import annotations

from enum import Enum, auto

from protocol.errors import (
    CONCURRENT_TRANSACTIONS,
    INVALID_PRODUCER_ID_MAPPING,
    INVALID_TXN_STATE,
    NONE,
    PRODUCER_FENCED,
    TRANSACTIONAL_ID_NOT_FOUND,
)
from transactions.states import State


class Act(Enum):
    """An action of a handler."""

    CHECK = auto()
    """Check the request: first its producer id and epoch, then its content."""
    BEGIN = auto()
    """Begin a transaction: write the state ONGOING with the partitions of the request."""
    EXTEND = auto()
    """Write ONGOING with the new partitions. Write no record if no partition is new."""
    PREPARE = auto()
    """Write PREPARE_COMMIT or PREPARE_ABORT, reply, and then send the markers."""
    REPEAT = auto()
    """Return the reply of an earlier identical request, whose reply was lost."""
    COMPLETE = auto()
    """Write COMPLETE_COMMIT or COMPLETE_ABORT."""
    TAKE_OVER = auto()
    """Write EMPTY with the next epoch or another producer id."""
    FENCE = auto()
    """Write PREPARE_ABORT with the next epoch. The client must retry."""
    IGNORE = auto()
    """Do nothing, because the markers are not awaited any more."""


Cell = Act | int

INIT_PRODUCER_ID: dict[State, Cell] = {
    State.EMPTY: Act.TAKE_OVER,
    State.ONGOING: Act.FENCE,
    State.PREPARE_COMMIT: CONCURRENT_TRANSACTIONS,
    State.PREPARE_ABORT: CONCURRENT_TRANSACTIONS,
    State.COMPLETE_COMMIT: Act.TAKE_OVER,
    State.COMPLETE_ABORT: Act.TAKE_OVER,
    State.DEAD: INVALID_PRODUCER_ID_MAPPING,
}
"""The action or error for InitProducerId in each state. The handler checks for PREPARE_* before it
checks the producer in the request."""

ADD_PARTITIONS: dict[State, Cell] = {
    State.EMPTY: Act.BEGIN,
    State.ONGOING: Act.EXTEND,
    State.PREPARE_COMMIT: CONCURRENT_TRANSACTIONS,
    State.PREPARE_ABORT: CONCURRENT_TRANSACTIONS,
    State.COMPLETE_COMMIT: Act.BEGIN,
    State.COMPLETE_ABORT: Act.BEGIN,
    State.DEAD: INVALID_PRODUCER_ID_MAPPING,
}
"""The action or error in each state for AddPartitionsToTxn, AddOffsetsToTxn, and partitions that
the broker adds for a TV2 client.

The handler checks for PREPARE_* before it checks the owner (KAFKA-18660).
"""

VERIFY_PARTITIONS: dict[State, Cell] = {
    State.EMPTY: Act.CHECK,
    State.ONGOING: Act.CHECK,
    State.PREPARE_COMMIT: CONCURRENT_TRANSACTIONS,
    State.PREPARE_ABORT: CONCURRENT_TRANSACTIONS,
    State.COMPLETE_COMMIT: Act.CHECK,
    State.COMPLETE_ABORT: Act.CHECK,
    State.DEAD: INVALID_PRODUCER_ID_MAPPING,
}
"""By state of the transactional id: the action or the error code for VerifyPartitions. The producer
id and its epoch are checked before."""

END_TV1: dict[State, tuple[Cell, Cell]] = {
    State.EMPTY: (INVALID_TXN_STATE, INVALID_TXN_STATE),
    State.ONGOING: (Act.PREPARE, Act.PREPARE),
    State.PREPARE_COMMIT: (CONCURRENT_TRANSACTIONS, CONCURRENT_TRANSACTIONS),
    State.PREPARE_ABORT: (CONCURRENT_TRANSACTIONS, CONCURRENT_TRANSACTIONS),
    State.COMPLETE_COMMIT: (NONE, INVALID_TXN_STATE),
    State.COMPLETE_ABORT: (INVALID_TXN_STATE, NONE),
    State.DEAD: (INVALID_PRODUCER_ID_MAPPING, INVALID_PRODUCER_ID_MAPPING),
}
"""For EndTxn v0 to v4, in each state of the transactional id: the action or error for COMMIT, and
for ABORT. The table applies only after the checks of producer id and epoch have passed."""

_END_TV2_NOW: dict[State, tuple[Cell, Cell]] = {
    State.EMPTY: (INVALID_TXN_STATE, Act.PREPARE),
    State.ONGOING: (Act.PREPARE, Act.PREPARE),
    State.PREPARE_COMMIT: (CONCURRENT_TRANSACTIONS, CONCURRENT_TRANSACTIONS),
    State.PREPARE_ABORT: (CONCURRENT_TRANSACTIONS, CONCURRENT_TRANSACTIONS),
    State.COMPLETE_COMMIT: (INVALID_TXN_STATE, Act.PREPARE),
    State.COMPLETE_ABORT: (INVALID_TXN_STATE, Act.PREPARE),
    State.DEAD: (INVALID_PRODUCER_ID_MAPPING, INVALID_PRODUCER_ID_MAPPING),
}
_END_TV2_AGAIN: dict[State, tuple[Cell, Cell]] = {
    State.EMPTY: (PRODUCER_FENCED, PRODUCER_FENCED),
    State.ONGOING: (PRODUCER_FENCED, PRODUCER_FENCED),
    State.PREPARE_COMMIT: (CONCURRENT_TRANSACTIONS, CONCURRENT_TRANSACTIONS),
    State.PREPARE_ABORT: (CONCURRENT_TRANSACTIONS, CONCURRENT_TRANSACTIONS),
    State.COMPLETE_COMMIT: (Act.REPEAT, INVALID_TXN_STATE),
    State.COMPLETE_ABORT: (PRODUCER_FENCED, Act.REPEAT),
    State.DEAD: (INVALID_PRODUCER_ID_MAPPING, INVALID_PRODUCER_ID_MAPPING),
}
END_TV2 = {False: _END_TV2_NOW, True: _END_TV2_AGAIN}
"""The actions or errors for COMMIT and ABORT in EndTxn from v5 on, in each state. The key is True
for a repeated call.

A repeated call has the previous epoch, or the previous producer id and epoch if the epochs were
exhausted. The handler checks for PREPARE_* before it checks the owner (KAFKA-18464).

ABORT without a transaction is accepted, because a client whose produce failed cannot know whether a
transaction was begun. A repeated COMMIT after an abort returns PRODUCER_FENCED, because only a
timeout leads to this case (KAFKA-20785). Kafka 4.3.1 returns INVALID_TXN_STATE, which ends a
Streams application.
"""

MARKERS: dict[State, Act] = {
    State.EMPTY: Act.IGNORE,
    State.ONGOING: Act.IGNORE,
    State.PREPARE_COMMIT: Act.COMPLETE,
    State.PREPARE_ABORT: Act.COMPLETE,
    State.COMPLETE_COMMIT: Act.IGNORE,
    State.COMPLETE_ABORT: Act.IGNORE,
    State.DEAD: Act.IGNORE,
}
"""The action in each state for MarkersWritten and MarkersRefused with the current producer id and
epoch."""

DESCRIBE: dict[State, int] = {
    State.EMPTY: NONE,
    State.ONGOING: NONE,
    State.PREPARE_COMMIT: NONE,
    State.PREPARE_ABORT: NONE,
    State.COMPLETE_COMMIT: NONE,
    State.COMPLETE_ABORT: NONE,
    State.DEAD: TRANSACTIONAL_ID_NOT_FOUND,
}
"""The error code of DescribeTransactions in each state. ListTransactions lists transactional ids
whose state has NONE."""
