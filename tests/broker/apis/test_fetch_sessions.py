"""Tests the cache of fetch sessions: its limit, its evictions, and the wraparound of session
epochs."""

from __future__ import annotations

import random

import pytest

from broker.apis.fetch.sessions import (
    CONSUMER,
    EVICTION_MS,
    LOOKED_THROUGH_MS,
    FetchSessionError,
    FetchSessions,
    ReplicaSession,
    Session,
    Wanted,
    next_epoch,
)
from protocol.errors import FETCH_SESSION_ID_NOT_FOUND
from security.principal import user

OWNER = (user("alice"), CONSUMER)


def wanted(count: int) -> list[Wanted]:
    return [Wanted("t", partition, 0, 1000) for partition in range(count)]


def sessions(slots: int) -> FetchSessions:
    return FetchSessions(slots, random.Random(1))


def created(cache: FetchSessions, size: int, now_ms: int = 0) -> Session:
    session = cache.create(OWNER, wanted(size), False, now_ms)
    assert session is not None
    return session


def test_number_of_fetch_sessions_is_bounded_by_the_cache_slots() -> None:
    cache = sessions(2)
    created(cache, 1)
    created(cache, 1)

    assert cache.create(OWNER, wanted(9), False, 0) is None
    assert len(cache) == 2


def test_fetch_session_is_not_created_when_the_cache_has_no_slots() -> None:
    assert sessions(0).create(OWNER, wanted(1), False, 0) is None


def test_fetch_session_idle_for_two_minutes_is_evicted() -> None:
    cache = sessions(2)
    idle, used = created(cache, 1), created(cache, 1)
    cache.resume(used.session_id, OWNER, 1, [], [], False, EVICTION_MS)

    created(cache, 1, EVICTION_MS + 1)

    with pytest.raises(FetchSessionError) as gone:
        cache.resume(idle.session_id, OWNER, 1, [], [], False, EVICTION_MS + 1)
    assert gone.value.error_code == FETCH_SESSION_ID_NOT_FOUND
    assert cache.resume(used.session_id, OWNER, 2, [], [], False, EVICTION_MS + 1) is used


def test_used_fetch_session_is_evicted_only_for_a_larger_session() -> None:
    cache = sessions(2)
    small, big = created(cache, 2), created(cache, 5)
    now_ms = EVICTION_MS + 1
    for session in (small, big):
        cache.resume(session.session_id, OWNER, 1, [], [], False, now_ms)

    assert cache.create(OWNER, wanted(2), False, now_ms) is None
    created(cache, 3, now_ms)

    with pytest.raises(FetchSessionError):
        cache.resume(small.session_id, OWNER, 2, [], [], False, now_ms)
    assert cache.resume(big.session_id, OWNER, 2, [], [], False, now_ms) is big


def test_fetch_session_younger_than_two_minutes_is_not_evicted() -> None:
    cache = sessions(1)
    created(cache, 1)

    assert cache.create(OWNER, wanted(100), False, EVICTION_MS) is None


def test_fetch_session_epoch_wraps_to_1() -> None:
    assert [next_epoch(1), next_epoch(2**31 - 2), next_epoch(2**31 - 1)] == [2, 2**31 - 1, 1]


def test_one_request_can_change_add_and_remove_partitions_of_a_fetch_session() -> None:
    cache = sessions(1)
    session = created(cache, 3)
    moved = Wanted("t", 1, 77, 500, current_leader_epoch=4)
    added = Wanted("u", 0, 5, 1000)

    cache.resume(session.session_id, OWNER, 1, [moved, added], [("t", 0)], False, 0)

    assert list(session.partitions) == [("t", 1), ("t", 2), ("u", 0)]
    entry = session.partitions["t", 1]
    assert (entry.fetch_offset, entry.max_bytes, entry.current_leader_epoch) == (77, 500, 4)


def replicas_session(size: int) -> ReplicaSession:
    session = sessions(1).create(OWNER, wanted(size), False, 0, ReplicaSession)
    assert isinstance(session, ReplicaSession)
    return session


def due(session: ReplicaSession) -> list[int]:
    return [entry.partition for entry in session.due()]


def test_replica_fetch_session_skips_idle_partitions_until_they_change() -> None:
    session = replicas_session(4)
    assert due(session) == [0, 1, 2, 3]
    first, second, third, _ = session.due()
    for entry in (first, second, third):
        session.quiet(entry)
    assert due(session) == [3]
    session.stirred(second, wake=False)
    assert due(session) == [3, 1]
    session.update([Wanted("t", 0, 5, 1000)], [])
    assert due(session) == [3, 1, 0]
    assert session.due()[2] is first
    assert first.fetch_offset == 5


def test_change_of_a_partition_wakes_the_waiting_follower_only_if_argument_wake_is_true() -> None:
    session = replicas_session(1)
    [entry] = session.due()
    woken: list[bool] = []
    session.wake = lambda: woken.append(True)
    session.stirred(entry, wake=False)
    assert woken == []
    session.stirred(entry, wake=True)
    assert woken == [True]


def test_replica_fetch_session_does_not_read_a_forgotten_partition_again() -> None:
    session = replicas_session(2)
    first, second = session.due()
    session.update([], [("t", 0)])
    session.quiet(second)
    session.stirred(first, wake=True)
    assert due(session) == []


def test_replica_fetch_session_periodically_reads_partitions_without_new_records() -> None:
    session = replicas_session(2)
    for now_ms in (LOOKED_THROUGH_MS, 2 * LOOKED_THROUGH_MS):
        for entry in session.due():
            session.quiet(entry)
        session.look_through(now_ms - 1)
        assert due(session) == []
        session.look_through(now_ms)
        assert due(session) == [0, 1]


def test_replica_fetch_session_puts_partition_with_returned_data_at_the_end_of_its_list() -> None:
    session = replicas_session(3)
    session.gave_data(("t", 0))
    assert due(session) == [1, 2, 0]
    [quiet] = [entry for entry in session.due() if entry.partition == 1]
    session.quiet(quiet)
    session.gave_data(("t", 1))
    assert due(session) == [2, 0]
    assert list(session.partitions) == [("t", 2), ("t", 0), ("t", 1)]
