"""The allowed differences between transactions in Muster and in Kafka. docs/use/differences.md
lists each with its reason."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from protocol.errors import (
    ILLEGAL_GENERATION,
    INVALID_PRODUCER_EPOCH,
    INVALID_PRODUCER_ID_MAPPING,
    INVALID_TXN_STATE,
    NONE,
    OUT_OF_ORDER_SEQUENCE_NUMBER,
    PRODUCER_FENCED,
    TRANSACTION_ABORTABLE,
    UNKNOWN_MEMBER_ID,
)
from tests.interop.transaction_traces.normal import codes
from tests.interop.transaction_traces.trace import Step


@dataclass(frozen=True)
class Reason:
    """A reason why two responses may differ. ``goes_on`` is true if the trace can continue."""

    text: str
    goes_on: bool
    nothing_appended: bool = False
    """If true, the partition must have the same log end offset on both brokers."""


TIMED_OUT = Reason("EndTxn with commit is repeated after a timeout aborted the transaction", True)
GUARD_LEFT = Reason("the first accepted batch of a transaction follows a refused batch", False)
REFUSED_BEFORE = Reason("the first accepted batch of a producer follows a refused batch", False)
REPEATED = Reason("a batch is repeated outside of its transaction", False, nothing_appended=True)
BOTH_WRONG = Reason("another transactional id has this producer id, and the epoch is too low", True)
NEXT_EPOCH = Reason("a batch of a higher epoch arrives in an open transaction", False)
OLD_START = Reason("DescribeTransactions of a transactional id without a transaction", True)
NEW_GROUP = Reason("TxnOffsetCommit with a generation for a group that does not exist", True)
NEVER_COMPLETE = Reason("a partition refuses a marker with the epoch of the transaction", False)
REASONS = (
    TIMED_OUT,
    GUARD_LEFT,
    REFUSED_BEFORE,
    REPEATED,
    BOTH_WRONG,
    NEXT_EPOCH,
    OLD_START,
    NEW_GROUP,
    NEVER_COMPLETE,
)
"""All reasons for differences. A test checks that docs/use/differences.md lists each of them."""


def reason_of(step: Step, state: str, mine: dict[str, Any], other: dict[str, Any]) -> Reason | None:
    """Returns the reason why two responses may differ, or None if the difference is not allowed."""
    both = (codes(mine), codes(other))
    who = step.says.get("who")
    if who == "other" and both == ([INVALID_PRODUCER_ID_MAPPING], [INVALID_PRODUCER_EPOCH]):
        return BOTH_WRONG
    match step.api:
        case "Produce":
            return _of_produce(step, both)
        case "TxnOffsetCommit" if both == ([ILLEGAL_GENERATION], [UNKNOWN_MEMBER_ID]):
            return NEW_GROUP
        case "DescribeTransactions" if _undated(mine) == _undated(other):
            return OLD_START
        case "ListTransactions" if step.says["duration_ms"] >= 0 and _used(mine) == _used(other):
            return OLD_START
        case "EndTxn" if step.version >= 5 and step.says["committed"]:
            differ = both == ([PRODUCER_FENCED], [INVALID_TXN_STATE])
            return TIMED_OUT if differ and state == "CompleteAbort" else None
    return None


_COORDINATOR_SAYS = (
    INVALID_PRODUCER_EPOCH,
    INVALID_TXN_STATE,
    INVALID_PRODUCER_ID_MAPPING,
    TRANSACTION_ABORTABLE,
)


def _of_produce(step: Step, both: tuple[list[int], list[int]]) -> Reason | None:
    mine, other = both
    if both == ([NONE], [OUT_OF_ORDER_SEQUENCE_NUMBER]):
        return REFUSED_BEFORE
    if both == ([OUT_OF_ORDER_SEQUENCE_NUMBER], [NONE]) and step.version >= 12:
        return GUARD_LEFT if step.says["kind"] == "gap" else None
    if mine == [INVALID_PRODUCER_EPOCH] and step.says["who"] == "next":
        return NEXT_EPOCH if other[0] in (NONE, OUT_OF_ORDER_SEQUENCE_NUMBER) else None
    return REPEATED if mine == [NONE] and other[0] in _COORDINATOR_SAYS else None


def _used(answer: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns the listed transactional ids whose state is not Empty."""
    return [each for each in answer["transaction_states"] if each["transaction_state"] != "Empty"]


def _undated(answer: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns the descriptions of transactional ids. Removes the start time from the description of
    an id that has no transaction."""
    return [
        {**each, "transaction_start_time_ms": each["transaction_state"] == "Empty" or each}
        for each in answer["transaction_states"]
    ]
