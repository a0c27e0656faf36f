"""A follower's side of fetch sessions: what is said in each turn."""

from __future__ import annotations

from broker.cluster.replicas.fetch_messages import Asked
from broker.cluster.replicas.fetch_session import FetchSession, Place, Turn


def asked(index: int, offset: int) -> Asked:
    return Asked(index, 0, offset, 0, 0, 1000)


def wanted(*places: tuple[str, int, int]) -> dict[Place, Asked]:
    return {(topic, index): asked(index, offset) for topic, index, offset in places}


def turn(session: FetchSession, *places: tuple[str, int, int], by_id: bool = False) -> Turn:
    return session.turn(wanted(*places), by_id=by_id)


def test_only_what_has_changed_is_said() -> None:
    session = FetchSession()
    first = turn(session, ("t", 0, 5), ("t", 1, 5), ("u", 0, 0))
    assert first == (0, 0, {"t": [asked(0, 5), asked(1, 5)], "u": [asked(0, 0)]}, {})
    session.answered(77)
    assert turn(session, ("t", 0, 5), ("t", 1, 6), ("v", 3, 1)) == (
        77,
        1,
        {"t": [asked(1, 6)], "v": [asked(3, 1)]},
        {"u": [0]},
    )
    session.answered(77)
    assert turn(session, ("t", 0, 5), ("t", 1, 6), ("v", 3, 1)) == (77, 2, {}, {})


def test_a_leader_without_room_is_told_all() -> None:
    session = FetchSession()
    for _ in range(2):
        assert turn(session, ("t", 0, 5)) == (0, 0, {"t": [asked(0, 5)]}, {})
        session.answered(0)


def test_a_session_that_ended_is_begun_anew() -> None:
    session = FetchSession()
    turn(session, ("t", 0, 5))
    session.answered(77)
    turn(session, ("t", 0, 6))
    session.answered(0)
    assert turn(session, ("t", 0, 6)) == (0, 0, {"t": [asked(0, 6)]}, {})


def test_a_turn_that_may_be_lost_is_said_anew_and_closes_the_session() -> None:
    session = FetchSession()
    turn(session, ("t", 0, 5))
    session.answered(77)
    turn(session, ("t", 0, 6))
    session.broken()
    assert turn(session, ("t", 0, 6), ("t", 1, 0)) == (
        77,
        0,
        {"t": [asked(0, 6), asked(1, 0)]},
        {},
    )
    session.answered(78)
    assert turn(session, ("t", 0, 6), ("t", 1, 0)) == (78, 1, {}, {})


def test_a_session_that_the_leader_does_not_know_is_not_closed() -> None:
    session = FetchSession()
    turn(session, ("t", 0, 5))
    session.answered(77)
    session.broken(is_unknown=True)
    assert turn(session, ("t", 0, 5)) == (0, 0, {"t": [asked(0, 5)]}, {})


def test_topics_with_other_names_are_another_session() -> None:
    session = FetchSession()
    turn(session, ("t", 0, 5), by_id=True)
    session.answered(77)
    assert turn(session, ("t", 0, 5)) == (77, 0, {"t": [asked(0, 5)]}, {})


def test_a_turn_without_news_says_nothing_while_the_session_lasts() -> None:
    session = FetchSession()
    assert not session.lasts
    turn(session, ("t", 0, 5))
    session.answered(77)
    assert session.lasts
    assert session.same_turn() == (77, 1, {}, {})
    session.answered(77)
    assert turn(session, ("t", 0, 5)) == (77, 2, {}, {})
    session.answered(0)
    assert not session.lasts
