"""Share sessions: epochs, principals, connections and limits."""

from __future__ import annotations

from typing import Any

import pytest

from broker.share import sessions as module
from broker.share.sessions import FINAL_EPOCH, ShareSessionError, ShareSessions
from protocol.errors import (
    INVALID_REQUEST,
    INVALID_SHARE_SESSION_EPOCH,
    SHARE_SESSION_LIMIT_REACHED,
    SHARE_SESSION_NOT_FOUND,
)
from security.principal import Principal

ALICE, BOB = Principal("User", "alice"), Principal("User", "bob")
TOPIC = bytes(range(16))


class World:
    def __init__(self, slots: int = 10) -> None:
        self.ended: list[tuple[str, str]] = []
        self.sessions = ShareSessions(lambda: slots, lambda *key: self.ended.append(key))

    def open(self, member: str = "m", who: Principal = ALICE, connection: str = "c1") -> Any:
        return self.sessions.open("g", member, who, connection)

    def resume(
        self, epoch: int, member: str = "m", who: Principal = ALICE, connection: str = "c1"
    ) -> Any:
        return self.sessions.resume("g", member, who, connection, epoch)

    def refused(self, work: Any) -> int:
        with pytest.raises(ShareSessionError) as caught:
            work()
        return caught.value.error_code


def test_share_session_expects_ascending_epochs() -> None:
    world = World()
    session = world.open()
    assert world.resume(1) is session
    assert world.resume(2) is session
    for wrong in (1, 2, 4, -2):
        assert world.refused(lambda epoch=wrong: world.resume(epoch)) == INVALID_SHARE_SESSION_EPOCH
    assert world.resume(3) is session


def test_share_session_epoch_after_2_to_the_31_minus_1_is_1() -> None:
    world = World()
    session = world.open()
    session.epoch = 2**31 - 1
    world.resume(2**31 - 1)
    assert world.resume(1) is session


@pytest.mark.parametrize("epoch", [1, FINAL_EPOCH])
def test_request_in_an_unknown_share_session_gets_share_session_not_found(epoch: int) -> None:
    assert World().refused(lambda: World().resume(epoch)) == SHARE_SESSION_NOT_FOUND


@pytest.mark.proves("share 13")
def test_share_session_of_another_principal_is_not_found_and_not_replaced() -> None:
    world = World()
    session = world.open()
    for work in (
        lambda: world.resume(1, who=BOB),
        lambda: world.resume(FINAL_EPOCH, who=BOB),
        lambda: world.open(who=BOB),
    ):
        assert world.refused(work) == SHARE_SESSION_NOT_FOUND
    assert world.resume(1) is session
    assert world.ended == []


def test_reopened_share_session_keeps_the_records_that_its_member_acquired() -> None:
    world = World(slots=1)
    first = world.open()
    ends: list[str] = []
    first.on_end = lambda: ends.append("first")
    second = world.open()
    assert not world.sessions.is_open(first)
    assert world.sessions.is_open(second)
    assert (ends, world.ended) == (["first"], [])


def test_share_session_above_the_limit_is_refused() -> None:
    world = World(slots=2)
    world.open("a")
    world.open("b")
    assert world.refused(lambda: world.open("c")) == SHARE_SESSION_LIMIT_REACHED
    world.sessions.close(world.resume(FINAL_EPOCH, "a"))
    world.open("c")


def test_closed_connection_ends_only_the_share_sessions_of_that_connection() -> None:
    world = World()
    world.open("a")
    world.open("b")
    other = world.open("c", connection="c2")
    world.sessions.connection_closed("c1")
    assert sorted(world.ended) == [("g", "a"), ("g", "b")]
    assert world.sessions.is_open(other)


def test_share_session_moves_to_the_new_connection_of_its_member() -> None:
    world = World()
    session = world.open()
    world.resume(1, connection="c2")
    world.sessions.connection_closed("c1")
    assert world.sessions.is_open(session)
    world.sessions.connection_closed("c2")
    assert world.ended == [("g", "m")]


def test_share_session_of_a_removed_member_ends() -> None:
    world = World()
    session = world.open()
    ends: list[str] = []
    session.on_end = lambda: ends.append("ended")
    world.sessions.member_removed("g", "m")
    world.sessions.member_removed("g", "without a session")
    assert world.ended == [("g", "m"), ("g", "without a session")]
    assert ends == ["ended"]
    assert world.refused(lambda: world.resume(1)) == SHARE_SESSION_NOT_FOUND


def test_number_of_partitions_in_all_share_sessions_is_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "PARTITIONS_MAX", 3)
    world = World()
    first, second = world.open("a"), world.open("b")
    world.sessions.update(first, [(TOPIC, 0), (TOPIC, 1)], [])
    assert (
        world.refused(lambda: world.sessions.update(second, [(TOPIC, 0), (TOPIC, 1)], []))
        == INVALID_REQUEST
    )
    assert not second.partitions
    world.sessions.update(first, [(TOPIC, 1)], [(TOPIC, 0)])
    world.sessions.update(second, [(TOPIC, 0), (TOPIC, 1)], [])
    world.sessions.close(first)
    world.sessions.update(second, [(TOPIC, 2)], [])
