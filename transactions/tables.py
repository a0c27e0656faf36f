"""The reply to each request in each state, as tables.

A handler reads its table after its own checks, which its docstring lists in order: an unknown id,
another producer, another epoch. A number is the error; an `Act` is the action.
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
    """The action for a request."""

    CHECK = auto()
    """The owner is checked, and then the request itself."""
    BEGIN = auto()
    """A record: ONGOING, with the partitions of the request."""
    EXTEND = auto()
    """A record where partitions are new: ONGOING, with those of before too."""
    PREPARE = auto()
    """A record: PREPARE_COMMIT or PREPARE_ABORT; the answer, and then the markers."""
    REPEAT = auto()
    """The answer that was lost, once more: it was done."""
    COMPLETE = auto()
    """A record: COMPLETE_COMMIT or COMPLETE_ABORT."""
    TAKE_OVER = auto()
    """A record: EMPTY, with one more epoch or another producer id."""
    FENCE = auto()
    """A record: PREPARE_ABORT with one more epoch; the client comes again."""
    IGNORE = auto()
    """It comes too late, and nothing is to be done."""


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
"""InitProducerId. PREPARE_* is checked before the producer that the request names."""

ADD_PARTITIONS: dict[State, Cell] = {
    State.EMPTY: Act.BEGIN,
    State.ONGOING: Act.EXTEND,
    State.PREPARE_COMMIT: CONCURRENT_TRANSACTIONS,
    State.PREPARE_ABORT: CONCURRENT_TRANSACTIONS,
    State.COMPLETE_COMMIT: Act.BEGIN,
    State.COMPLETE_ABORT: Act.BEGIN,
    State.DEAD: INVALID_PRODUCER_ID_MAPPING,
}
"""AddPartitionsToTxn, AddOffsetsToTxn, and the partitions that the broker adds for a TV2 client.
PREPARE_* is checked before the owner (KAFKA-18660)."""

VERIFY_PARTITIONS: dict[State, Cell] = {
    State.EMPTY: Act.CHECK,
    State.ONGOING: Act.CHECK,
    State.PREPARE_COMMIT: CONCURRENT_TRANSACTIONS,
    State.PREPARE_ABORT: CONCURRENT_TRANSACTIONS,
    State.COMPLETE_COMMIT: Act.CHECK,
    State.COMPLETE_ABORT: Act.CHECK,
    State.DEAD: INVALID_PRODUCER_ID_MAPPING,
}
"""Whether partitions are in the transaction, behind the checks of the owner."""

END_TV1: dict[State, tuple[Cell, Cell]] = {
    State.EMPTY: (INVALID_TXN_STATE, INVALID_TXN_STATE),
    State.ONGOING: (Act.PREPARE, Act.PREPARE),
    State.PREPARE_COMMIT: (CONCURRENT_TRANSACTIONS, CONCURRENT_TRANSACTIONS),
    State.PREPARE_ABORT: (CONCURRENT_TRANSACTIONS, CONCURRENT_TRANSACTIONS),
    State.COMPLETE_COMMIT: (NONE, INVALID_TXN_STATE),
    State.COMPLETE_ABORT: (INVALID_TXN_STATE, NONE),
    State.DEAD: (INVALID_PRODUCER_ID_MAPPING, INVALID_PRODUCER_ID_MAPPING),
}
"""EndTxn up to v4: (COMMIT, ABORT), behind the checks of the owner."""

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
"""EndTxn from v5 on. Key: whether it is a repeat, that is with the epoch before (or with the
producer id and epoch before, when the epochs were used up), then (COMMIT, ABORT).

PREPARE_* is checked before the owner (KAFKA-18464). ABORT without a transaction is done, since a
client whose produce failed can't know whether a transaction was begun. COMMIT repeated after an
abort: only a timeout leads there, so that the producer is fenced (KAFKA-20785; Kafka 4.3.1 replies
INVALID_TXN_STATE, which ends a Streams application)."""

MARKERS: dict[State, Act] = {
    State.EMPTY: Act.IGNORE,
    State.ONGOING: Act.IGNORE,
    State.PREPARE_COMMIT: Act.COMPLETE,
    State.PREPARE_ABORT: Act.COMPLETE,
    State.COMPLETE_COMMIT: Act.IGNORE,
    State.COMPLETE_ABORT: Act.IGNORE,
    State.DEAD: Act.IGNORE,
}
"""Each marker is written or refused, of the producer and epoch that the id has now."""

DESCRIBE: dict[State, int] = {
    State.EMPTY: NONE,
    State.ONGOING: NONE,
    State.PREPARE_COMMIT: NONE,
    State.PREPARE_ABORT: NONE,
    State.COMPLETE_COMMIT: NONE,
    State.COMPLETE_ABORT: NONE,
    State.DEAD: TRANSACTIONAL_ID_NOT_FOUND,
}
"""DescribeTransactions; ListTransactions lists those that it describes."""
