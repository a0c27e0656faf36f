"""A follower: determines the offset to which it truncates its log, and its reaction to errors.

A follower learns the offset at which the epoch of its last record ended on the leader. The source
is an OffsetForLeaderEpoch response (KIP-101, KIP-279) or a Fetch response (KIP-595). The leader
does not have the follower's records after this offset, and the follower truncates them. The version
of the cluster determines the method:

| version of the cluster | a new follower begins by |
|---|---|
| 2.7 and newer | fetching from its end; a log without epochs is truncated to the high watermark |
| 0.11 to 2.6 | sending OffsetForLeaderEpoch until no more is truncated, and then fetching |
| older | truncating its log to the high watermark, and then fetching |

Source: Kafka 3.9 ``AbstractFetcherThread.scala``, ``ReplicaFetcherThread.scala``.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import NamedTuple

from protocol.errors import (
    CORRUPT_MESSAGE,
    FENCED_LEADER_EPOCH,
    INCONSISTENT_TOPIC_ID,
    INVALID_RECORD,
    LEADER_NOT_AVAILABLE,
    NOT_LEADER_OR_FOLLOWER,
    OFFSET_NOT_AVAILABLE,
    OFFSET_OUT_OF_RANGE,
    REPLICA_NOT_AVAILABLE,
    UNKNOWN_LEADER_EPOCH,
    UNKNOWN_TOPIC_ID,
    UNKNOWN_TOPIC_OR_PARTITION,
)

UNKNOWN = -1

EndOf = Callable[[int], tuple[int, int]]
"""A function that looks up a leader epoch in the follower's log. It returns the largest epoch in
the log that is not larger than the given epoch, and the offset at which this largest epoch ends;
(-1, -1) if the log has no such epoch."""


class Way(Enum):
    """The method by which a follower determines to which offset it truncates its log."""

    BY_FETCH = "by_fetch"
    BY_EPOCH = "by_epoch"
    BY_HIGH_WATERMARK = "by_high_watermark"


class Begin(Enum):
    """The first action of a new follower."""

    FETCH = "fetch"
    ASK = "ask"
    """Send OffsetForLeaderEpoch with the epoch of the follower's last record."""
    CUT = "cut"
    """Truncate the log to the high watermark, then fetch."""


class Cut(NamedTuple):
    """The offset to which a follower truncates its log."""

    offset: int
    done: bool
    """True if the follower may fetch now. Otherwise it sends OffsetForLeaderEpoch again, with the
    epoch of its new last record."""


class Reset(NamedTuple):
    """The offset at which a follower continues after OFFSET_OUT_OF_RANGE."""

    offset: int
    drop_all: bool = False
    """True if all records of the follower are obsolete. The follower drops all records, and its log
    then begins at ``offset``."""


class OnError(Enum):
    """The action of a follower for a partition whose Fetch failed."""

    RESET = "reset"
    """Request the start and end offsets of the leader's log, then call `reset`."""
    RETRY = "retry"
    """Fetch again after `replica.fetch.backoff.ms`."""
    AGAIN = "again"
    """Fetch again immediately, with the current leader epoch."""
    WAIT = "wait"
    """Wait until the controller announces another leader epoch."""


def begin(way: Way, latest_epoch: int) -> Begin:
    """Returns the first action of a follower. ``latest_epoch`` is the epoch of its last record, -1
    if its log has no epochs."""
    if latest_epoch < 0 or way is Way.BY_HIGH_WATERMARK:
        return Begin.CUT
    return Begin.FETCH if way is Way.BY_FETCH else Begin.ASK


def cut_to(
    leader_epoch: int, leader_end: int, own_end_of: EndOf, end_offset: int, high_watermark: int
) -> Cut:
    """Returns the offset to which the follower truncates its log. On the leader, ``leader_epoch``
    ended at the offset ``leader_end``.

    Both values are from an OffsetForLeaderEpoch response, or from the field diverging_epoch of a
    Fetch response. If the leader does not know where the epoch ended, the follower truncates its
    log to the high watermark.
    """
    if leader_end == UNKNOWN:
        return Cut(min(high_watermark, end_offset), done=True)
    if leader_epoch == UNKNOWN:
        return Cut(min(leader_end, end_offset), done=True)
    own_epoch, own_end = own_end_of(leader_epoch)
    if own_epoch == UNKNOWN:
        return Cut(min(leader_end, end_offset), done=True)
    if own_epoch < leader_epoch:
        return Cut(min(own_end, end_offset), done=False)
    return Cut(min(own_end, leader_end, end_offset), done=True)


def reset(leader_start: int, leader_end: int, end_offset: int) -> Reset:
    """Returns the offset at which the follower continues after OFFSET_OUT_OF_RANGE.
    ``leader_start`` and ``leader_end`` are the bounds of the leader's log.

    The leader's log may be shorter than the follower's after an unclean election. Or the follower's
    log may end before the leader's log begins.
    """
    if leader_end < end_offset:
        return Reset(leader_end)
    if leader_start > end_offset:
        return Reset(leader_start, drop_all=True)
    return Reset(end_offset)


def follower_high_watermark(leader_high_watermark: int, end_offset: int, start_offset: int) -> int:
    """Returns the high watermark of a follower after an append. It may be lower than the previous
    one."""
    return max(min(leader_high_watermark, end_offset), start_offset)


_EXPECTED = frozenset(
    (
        UNKNOWN_LEADER_EPOCH,
        NOT_LEADER_OR_FOLLOWER,
        UNKNOWN_TOPIC_OR_PARTITION,
        UNKNOWN_TOPIC_ID,
        INCONSISTENT_TOPIC_ID,
        CORRUPT_MESSAGE,
        INVALID_RECORD,
        LEADER_NOT_AVAILABLE,
        REPLICA_NOT_AVAILABLE,
        OFFSET_NOT_AVAILABLE,
    )
)


def on_error(error_code: int, asked_epoch: int, leader_epoch: int) -> OnError:
    """Returns the action of a follower after a Fetch failed. ``asked_epoch`` is the leader epoch in
    the Fetch, and ``leader_epoch`` is the latest leader epoch that the follower knows.

    After an unexpected error, the follower fetches again, since the error may be about another
    partition. For example, Kafka 0.10.2 responds to a whole request with UNKNOWN_SERVER_ERROR if it
    does not know yet that the follower has a replica of one of the partitions.
    """
    if error_code == OFFSET_OUT_OF_RANGE:
        return OnError.RESET
    if error_code == FENCED_LEADER_EPOCH:
        return OnError.WAIT if asked_epoch >= leader_epoch else OnError.AGAIN
    return OnError.RETRY


def is_expected(error_code: int) -> bool:
    """Returns True if an error is normal while leaders change. Other errors are logged."""
    return error_code in _EXPECTED
