"""A follower: where its log begins to differ from its leader's, and what it does on an error.

A follower asks its leader, by the epoch of its own last record, where that epoch ended there
(KIP-101, KIP-279), or is told so by a Fetch (KIP-595). What it has behind that was never committed
under this leader, and goes. Which of the two it does is a matter of the cluster's version:

| version of the cluster | a new follower begins by |
|---|---|
| 2.7 and newer | fetching from its end; a log without epochs is cut to the high watermark |
| 0.11 to 2.6 | asking OffsetForLeaderEpoch until no more is cut, and then fetching |
| older | cutting its log to the high watermark, and then fetching |

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
"""The largest epoch of one's own log at or below the one given, and where it ended; (-1, -1)."""


class Way(Enum):
    """How a follower finds out what it must cut."""

    BY_FETCH = "by_fetch"
    BY_EPOCH = "by_epoch"
    BY_HIGH_WATERMARK = "by_high_watermark"


class Begin(Enum):
    """What a follower does first."""

    FETCH = "fetch"
    ASK = "ask"
    """OffsetForLeaderEpoch with the epoch of its own last record."""
    CUT = "cut"
    """Its log to the high watermark; then it fetches."""


class Cut(NamedTuple):
    """To what end a follower's log is cut."""

    offset: int
    done: bool
    """It may fetch now; else it asks again, with the epoch that is its last then."""


class Reset(NamedTuple):
    """Where a follower goes on whose offset its leader does not have."""

    offset: int
    drop_all: bool = False
    """Nothing of its log is of use: it begins anew at ``offset``."""


class OnError(Enum):
    """What becomes of a partition whose Fetch was refused."""

    RESET = "reset"
    """The leader's ends are asked for; see `reset`."""
    RETRY = "retry"
    """It is fetched again after `replica.fetch.backoff.ms`."""
    AGAIN = "again"
    """It is fetched again at once, with what is known now."""
    WAIT = "wait"
    """Until the controller names another leader epoch."""


def begin(way: Way, latest_epoch: int) -> Begin:
    """What a follower does first whose last record has ``latest_epoch``; -1 without epochs."""
    if latest_epoch < 0 or way is Way.BY_HIGH_WATERMARK:
        return Begin.CUT
    return Begin.FETCH if way is Way.BY_FETCH else Begin.ASK


def cut_to(
    leader_epoch: int, leader_end: int, own_end_of: EndOf, end_offset: int, high_watermark: int
) -> Cut:
    """Where the log is cut, when the leader's answer is this epoch and where it ended there.

    The answer is that of OffsetForLeaderEpoch, or the diverging epoch of a Fetch. A leader that
    knows no end has told nothing: what is not committed goes.
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
    """Where to go on after OFFSET_OUT_OF_RANGE, by the ends of the leader's log.

    The leader's log may be the shorter one, after an unclean election; or all that is here may be
    older than what the leader still has.
    """
    if leader_end < end_offset:
        return Reset(leader_end)
    if leader_start > end_offset:
        return Reset(leader_start, drop_all=True)
    return Reset(end_offset)


def follower_high_watermark(leader_high_watermark: int, end_offset: int, start_offset: int) -> int:
    """A follower's high watermark behind an append; it may be lower than before."""
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
    """What to do when a Fetch of ``asked_epoch`` was refused, and ours is ``leader_epoch``.

    What nobody expects is tried again too. One partition may fail for the sake of another: Kafka
    0.10.2 answers UNKNOWN_SERVER_ERROR for all of a request that names one which it does not know
    to be the follower's yet.
    """
    if error_code == OFFSET_OUT_OF_RANGE:
        return OnError.RESET
    if error_code == FENCED_LEADER_EPOCH:
        return OnError.WAIT if asked_epoch >= leader_epoch else OnError.AGAIN
    return OnError.RETRY


def is_expected(error_code: int) -> bool:
    """Whether an error comes and goes while leaders move; others are told to the operator."""
    return error_code in _EXPECTED
