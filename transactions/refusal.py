"""Replies that contain only an error: for calls that a shard does not handle, and for calls whose
records could not be written.

A handler creates its reply before its records are written. If the write fails or takes too long,
each reply that depends on the records is replaced by a reply of the same type that contains only an
error.
"""

from __future__ import annotations

from protocol.errors import (
    COORDINATOR_LOAD_IN_PROGRESS,
    COORDINATOR_NOT_AVAILABLE,
    NOT_COORDINATOR,
)
from transactions.calls import (
    AddPartitions,
    Call,
    DescribeTransaction,
    EndTransaction,
    InitProducerId,
    ListTransactions,
    MarkersRefused,
    MarkersWritten,
    VerifyPartitions,
)
from transactions.outcome import (
    DescribeReply,
    EndReply,
    InitReply,
    ListReply,
    Reply,
    SendMarkers,
)


def refusal(call: Call, error_code: int) -> Reply:
    """Returns a reply to ``call`` that contains only ``error_code``."""
    match call:
        case InitProducerId():
            return InitReply(error_code)
        case AddPartitions() | MarkersWritten() | MarkersRefused():
            return error_code
        case VerifyPartitions():
            return [error_code] * sum(len(ids) for _, ids in call.partitions)
        case EndTransaction():
            return EndReply(error_code)
        case DescribeTransaction():
            return DescribeReply(error_code, call.transactional_id)
        case ListTransactions():
            return ListReply(error_code)


def loading_error(call: Call) -> int:  # noqa: ARG001
    """Returns the error code for any call that arrives while the shard is being loaded."""
    return COORDINATOR_LOAD_IN_PROGRESS


def failed(reply: Reply, error_code: int) -> Reply:
    """Returns a reply of the same type as ``reply`` that contains only ``error_code``.

    If ``reply`` is a `SendMarkers`, returns ``error_code`` itself: the markers must not be sent,
    because their Prepare record is not in the log.
    """
    if isinstance(reply, int | SendMarkers):
        return error_code
    if isinstance(reply, InitReply):
        return InitReply(error_code)
    if isinstance(reply, EndReply):
        return EndReply(error_code)
    if isinstance(reply, DescribeReply):
        return DescribeReply(error_code, reply.transactional_id)
    if isinstance(reply, ListReply):
        return ListReply(error_code)
    return [error_code] * len(reply)


def write_failed(reply: Reply) -> Reply:
    """Returns the reply to a call whose records could not be appended.

    Its error is NOT_COORDINATOR, to which Kafka maps KAFKA_STORAGE_ERROR. Source: Kafka 4.3
    ``TransactionStateManager``, the mapping of append errors.
    """
    return failed(reply, NOT_COORDINATOR)


def timed_out(reply: Reply) -> Reply:
    """Returns the reply to a call whose records are not stable in time. Its error is
    COORDINATOR_NOT_AVAILABLE, as in Kafka.

    A `SendMarkers` does not time out, because the Prepare record is in the log and will become
    stable.
    """
    return failed(reply, COORDINATOR_NOT_AVAILABLE)
