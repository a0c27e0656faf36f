"""Tests the fetch sessions of a follower: the content of each request."""

from __future__ import annotations

from broker.cluster.replicas.fetch_messages import Asked
from broker.cluster.replicas.fetch_session import FetchSession, Place, SessionFields


def asked(index: int, offset: int) -> Asked:
    return Asked(index, 0, offset, 0, 0, 1000)


def wanted(*places: tuple[str, int, int]) -> dict[Place, Asked]:
    return {(topic, index): asked(index, offset) for topic, index, offset in places}


def next_fields(
    session: FetchSession, *places: tuple[str, int, int], by_id: bool = False
) -> SessionFields:
    return session.fields_for(wanted(*places), by_id=by_id)


def test_follower_fetch_request_lists_only_changed_partitions() -> None:
    session = FetchSession()
    first = next_fields(session, ("t", 0, 5), ("t", 1, 5), ("u", 0, 0))
    assert first == (0, 0, {"t": [asked(0, 5), asked(1, 5)], "u": [asked(0, 0)]}, {})
    session.answered(77)
    assert next_fields(session, ("t", 0, 5), ("t", 1, 6), ("v", 3, 1)) == (
        77,
        1,
        {"t": [asked(1, 6)], "v": [asked(3, 1)]},
        {"u": [0]},
    )
    session.answered(77)
    assert next_fields(session, ("t", 0, 5), ("t", 1, 6), ("v", 3, 1)) == (77, 2, {}, {})


def test_follower_fetch_requests_are_full_when_leader_creates_no_session() -> None:
    session = FetchSession()
    for _ in range(2):
        assert next_fields(session, ("t", 0, 5)) == (0, 0, {"t": [asked(0, 5)]}, {})
        session.answered(0)


def test_follower_starts_a_new_fetch_session_after_its_session_ended() -> None:
    session = FetchSession()
    next_fields(session, ("t", 0, 5))
    session.answered(77)
    next_fields(session, ("t", 0, 6))
    session.answered(0)
    assert next_fields(session, ("t", 0, 6)) == (0, 0, {"t": [asked(0, 6)]}, {})


def test_follower_replaces_its_fetch_session_after_a_lost_request() -> None:
    session = FetchSession()
    next_fields(session, ("t", 0, 5))
    session.answered(77)
    next_fields(session, ("t", 0, 6))
    session.broken()
    assert next_fields(session, ("t", 0, 6), ("t", 1, 0)) == (
        77,
        0,
        {"t": [asked(0, 6), asked(1, 0)]},
        {},
    )
    session.answered(78)
    assert next_fields(session, ("t", 0, 6), ("t", 1, 0)) == (78, 1, {}, {})


def test_follower_does_not_close_a_fetch_session_that_the_leader_lost() -> None:
    session = FetchSession()
    next_fields(session, ("t", 0, 5))
    session.answered(77)
    session.broken(is_unknown=True)
    assert next_fields(session, ("t", 0, 5)) == (0, 0, {"t": [asked(0, 5)]}, {})


def test_follower_starts_a_new_fetch_session_when_it_no_longer_sends_topic_ids() -> None:
    session = FetchSession()
    next_fields(session, ("t", 0, 5), by_id=True)
    session.answered(77)
    assert next_fields(session, ("t", 0, 5)) == (77, 0, {"t": [asked(0, 5)]}, {})


def test_follower_fetch_request_is_empty_when_no_partition_changed() -> None:
    session = FetchSession()
    assert not session.lasts
    next_fields(session, ("t", 0, 5))
    session.answered(77)
    assert session.lasts
    assert session.unchanged_fields() == (77, 1, {}, {})
    session.answered(77)
    assert next_fields(session, ("t", 0, 5)) == (77, 2, {}, {})
    session.answered(0)
    assert not session.lasts
