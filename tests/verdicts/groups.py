"""Builders of facts about a group ``billing``. All facts are relative to a fixed time."""

from __future__ import annotations

from typing import Any

from verdicts.facts import (
    EMPTY,
    STABLE,
    AwaitedFacts,
    GroupFacts,
    HoldFacts,
    MemberFacts,
    PartitionFacts,
    RefusedFacts,
    ReturnFacts,
)

NOW_MS = 1_795_349_131_000
"""The current time of all facts: 2026-11-22T12:05:31Z, in ms since 1970."""


def ago(seconds: float) -> int:
    """Returns the wall time in ms that is ``seconds`` before NOW_MS."""
    return NOW_MS - round(seconds * 1000)


def member(name: str = "m1", silent_s: float | None = 1.6, **fields: Any) -> MemberFacts:
    """Returns a member with a session timeout of 45 s."""
    silent_ms = None if silent_s is None else round(silent_s * 1000)
    fields = {"client": "app", "host": "/10.0.0.7", "session_timeout_ms": 45_000, **fields}
    is_heard = silent_s is None or silent_s < 15
    return MemberFacts(name, silent_ms=silent_ms, is_heard=is_heard, **fields)


def at(
    partition: int,
    committed: int | None,
    end: int,
    *,
    start: int = 0,
    stands: float | None = None,
    moved: float | None = None,
    commits: float | None = None,
    oldest: float | None = None,
    owner: str | None = "m1",
    topic: str = "orders",
    has_grown: bool = True,
    hold: HoldFacts | None = None,
) -> PartitionFacts:
    """Returns the facts of a partition. ``stands``, ``moved``, ``commits`` and ``oldest`` are
    times, in seconds before NOW_MS."""

    def before(seconds: float | None) -> int | None:
        return None if seconds is None else ago(seconds)

    return PartitionFacts(
        topic=topic,
        partition=partition,
        committed=committed,
        log_start=start,
        log_end=end,
        committed_ms=before(commits if commits is not None else moved),
        moved_ms=before(moved),
        stands_since_ms=before(stands),
        unread_since_ms=before(oldest),
        owner=owner,
        has_grown=has_grown,
        hold=hold,
    )


def held(open_s: float = 42, offset: int = 120, ends_s: float | None = 18) -> HoldFacts:
    """Returns a transaction that has blocked a partition for ``open_s`` seconds. Its transactional
    id is known."""
    ends_ms = None if ends_s is None else ago(-ends_s)
    return HoldFacts("billing-1", 4001, 3, offset, ago(open_s), ends_ms, "app", "/10.0.0.9")


def held_elsewhere(open_s: float = 90, offset: int = 120) -> HoldFacts:
    """Returns a transaction without a known transactional id. The coordinator of the id may be
    another broker."""
    return hanging(open_s, offset)._replace(is_elsewhere=True)


def hanging(open_s: float = 90, offset: int = 120) -> HoldFacts:
    """Returns a hanging transaction: its producer id belongs to no transactional id."""
    return HoldFacts(None, 4001, 3, offset, ago(open_s))


def stable(*partitions: PartitionFacts, **fields: Any) -> GroupFacts:
    """Returns a group that has been Stable for an hour, with member m1."""
    fields = {"members": (member(),), "state_since_ms": ago(3600), **fields}
    return GroupFacts("billing", STABLE, protocol_type="consumer", partitions=partitions, **fields)


def empty(*partitions: PartitionFacts, for_s: float | None = 3600, **fields: Any) -> GroupFacts:
    """Returns a group that has been Empty for ``for_s`` seconds."""
    since_ms = None if for_s is None else ago(for_s)
    fields = {"protocol_type": "consumer", **fields}
    nobodys = [each._replace(owner=None) for each in partitions]
    return GroupFacts("billing", EMPTY, since_ms, partitions=nobodys, **fields)


def simple(*partitions: PartitionFacts) -> GroupFacts:
    """Returns a group whose clients call assign() and do not join the group."""
    return empty(*partitions, protocol_type=None)


def joining(*awaited: str, for_s: float, members: Any, phase: str = "join") -> GroupFacts:
    """Returns a group whose rebalance has waited for the members ``awaited`` for ``for_s`` seconds.
    The rebalance waits at most 50 s more."""
    return GroupFacts(
        "billing",
        "PreparingRebalance",
        ago(for_s),
        "consumer",
        members=members,
        awaits=AwaitedFacts(phase, ago(-50), awaited),
    )


def returns(times: int, **fields: Any) -> ReturnFacts:
    """Returns a client that has restarted ``times`` times, at intervals of 10 s. The last restart
    was 10 s ago."""
    ways = (("restarted", times),)
    fields = {"client": "app", "host": "/10.0.0.7", "ways": ways, **fields}
    return ReturnFacts("m9", at_ms=every_ten_seconds(times), **fields)


def refused(last_s: float = 5, times: int = 7, **fields: Any) -> RefusedFacts:
    """Returns a client whose JoinGroup requests were refused ``times`` times within a minute, the
    last time ``last_s`` seconds ago."""
    fields = {
        "error": "INVALID_SESSION_TIMEOUT",
        "client": "late",
        "host": "/10.0.0.9",
        "why": "session.timeout.ms is 100, but the broker accepts 6000 to 1800000",
        **fields,
    }
    return RefusedFacts(since_ms=ago(last_s + 55), last_ms=ago(last_s), times=times, **fields)


def every_ten_seconds(times: int) -> tuple[int, ...]:
    """Returns ``times`` wall times in ms at intervals of 10 s. The last one is 10 s ago."""
    return tuple(ago(10 * number) for number in range(times, 0, -1))
