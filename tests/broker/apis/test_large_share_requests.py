"""Tests that the broker splits two kinds of long work into short slices: large acknowledgements,
and the end of many share sessions. Also tests that it drops requests of disconnected clients."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from protocol.errors import (
    INVALID_RECORD_STATE,
    INVALID_REQUEST,
    NONE,
    SHARE_SESSION_LIMIT_REACHED,
)
from share.partition.acknowledgement import PIECE
from share.values import DeliveryState
from tests.broker.share_calls import ACCEPT, REJECT, ShareMember, acquired
from tests.broker.share_scene import Scene, on_scene
from tests.waiting import until

RECORDS = 2 * PIECE + 200
SESSIONS = 50


def pieces_of(scene: Scene) -> list[int]:
    """Records the calls of `begin_acknowledging` from now on. Returns a list to which each call
    appends the number of acknowledge types in its arguments."""
    found: list[int] = []
    partitions: Any = scene.broker.share_partitions
    acknowledge: Callable[..., Any] = partitions.begin_acknowledging

    def spy(live: Any, member_id: str, batches: Any, **more: Any) -> Any:
        found.append(sum([len(types) for _, _, types in batches]))
        return acknowledge(live, member_id, batches, **more)

    partitions.begin_acknowledging = spy
    return found


async def test_large_share_acknowledgement_is_applied_in_slices(tmp_path: Path) -> None:
    def work(scene: Scene) -> None:
        scene.produce(*[b"%d" % number for number in range(RECORDS)])
        member = scene.member("m")
        assert acquired(member.open(max_records=RECORDS, batch_size=RECORDS))
        found = pieces_of(scene)
        types = [ACCEPT, REJECT] * (RECORDS // 2)
        assert member.acknowledge((0, RECORDS - 1, types)) == NONE
        assert found == [PIECE, PIECE, RECORDS - 2 * PIECE]
        scene.produce(b"next")
        assert acquired(member.fetch(max_wait_ms=5_000)) == [(RECORDS, RECORDS, 1)]
        # Repeated: all batches are before the start offset.
        del found[:]
        assert member.acknowledge(*[(offset, offset, [ACCEPT]) for offset in range(RECORDS)]) == 0
        assert sum(found) == 0

    await on_scene(tmp_path, work)


async def test_large_share_acknowledgement_with_an_error_changes_no_record(tmp_path: Path) -> None:
    def work(scene: Scene) -> None:
        scene.produce(*[b"%d" % number for number in range(RECORDS)])
        member = scene.member("m")
        assert acquired(member.open(max_records=RECORDS, batch_size=RECORDS))
        each = [(offset, offset, [ACCEPT]) for offset in range(RECORDS)]
        after_the_end = (RECORDS, RECORDS, [ACCEPT])
        assert member.acknowledge(*each, after_the_end) == INVALID_REQUEST
        assert member.acknowledge((0, RECORDS - 1, [ACCEPT] * (RECORDS - 1))) == INVALID_REQUEST
        descending = [*each[: PIECE + 1], each[PIECE - 1]]
        assert member.acknowledge(*descending) == INVALID_REQUEST
        assert member.acknowledge(*each) == NONE

    await on_scene(tmp_path, work)


async def test_large_share_acknowledgement_changes_no_record_when_a_later_slice_fails(
    tmp_path: Path,
) -> None:
    def work(scene: Scene) -> None:
        scene.produce(*[b"%d" % number for number in range(RECORDS)])
        member = scene.member("m")
        assert acquired(member.open(max_records=RECORDS, batch_size=RECORDS))
        partitions: Any = scene.broker.share_partitions
        begin: Callable[..., Any] = partitions.begin_acknowledging

        def refusing(live: Any, member_id: str, batches: Any, **more: Any) -> Any:
            if batches[0].first_offset >= PIECE:  # as if the locks had ended since the check
                member_id = "other"
            return begin(live, member_id, batches, **more)

        partitions.begin_acknowledging = refusing
        types = [ACCEPT, REJECT] * (RECORDS // 2)
        assert member.acknowledge((0, RECORDS - 1, types)) == INVALID_RECORD_STATE
        partitions.begin_acknowledging = begin
        (live,) = scene.in_loop(lambda: list(partitions.of_group("g")))
        states = {each.state for each in live.share.in_flight()}
        assert states == {DeliveryState.ACQUIRED}
        assert member.acknowledge((0, RECORDS - 1, types)) == NONE

    await on_scene(tmp_path, work)


async def test_share_member_that_returns_waits_until_its_records_are_released(
    tmp_path: Path,
) -> None:
    def work(scene: Scene) -> None:
        scene.produce(b"a", b"b")
        first = scene.member("m")
        assert acquired(first.open()) == [(0, 1, 1)]
        scene.hold_writes()
        first.wire.close()
        releases = scene.broker.share_partitions.releases
        until("the release is pending", lambda: scene.in_loop(lambda: len(releases)) == 1)
        again = scene.member("m")
        again.wire.send("ShareFetch", 2, again.request((0,), max_wait_ms=5_000))
        scene.let_writes()
        _, reply = again.wire.receive()
        assert acquired(reply) == [(0, 1, 2)]
        assert not scene.in_loop(lambda: len(releases))

    await on_scene(tmp_path, work)


async def test_many_share_sessions_of_a_closed_connection_are_ended_in_slices(
    tmp_path: Path,
) -> None:
    def work(scene: Scene) -> None:
        sessions = scene.broker.share_sessions
        wire = scene.member("m0").wire
        for number in range(SESSIONS):
            member = ShareMember(wire, scene.topic_id, f"m{number}")
            wire.send("ShareFetch", 2, member.request((0,), max_records=0))
        for _ in range(SESSIONS):
            wire.receive()
        assert len(sessions) == SESSIONS
        left: list[int] = []
        ended, sessions._on_ended = sessions._on_ended, lambda *_: left.append(len(sessions))
        scene.in_loop(lambda: setattr(scene.broker.slicer, "slice_ns", 0))
        pauses = turns_of(scene)
        wire.close()
        until("the sessions end", lambda: not len(sessions))
        assert left == list(range(SESSIONS - 1, -1, -1))
        assert pauses["share release"] >= SESSIONS
        sessions._on_ended = ended

    await on_scene(tmp_path, work)


def turns_of(scene: Scene) -> Counter[str]:
    """Returns a counter that the broker increments from now on. By the name of a kind of work: the
    number of slices of this work that have ended."""
    found: Counter[str] = Counter()
    watchdog: Any = scene.broker.slicer.watchdog
    held = watchdog.held

    def spy(name: str, ns: int) -> None:
        found[name] += 1
        held(name, ns)

    watchdog.held = spy
    return found


async def test_share_fetch_of_a_disconnected_client_opens_no_session(tmp_path: Path) -> None:
    def work(scene: Scene) -> None:
        scene.produce(b"a")
        first = scene.member("m")
        assert acquired(first.open()) == [(0, 0, 1)]
        scene.hold_writes()
        first.wire.close()
        releases = scene.broker.share_partitions.releases
        until("the release is pending", lambda: scene.in_loop(lambda: len(releases)) == 1)
        again = scene.member("m")
        waits = scene.in_loop(lambda: len(scene.broker.background.tasks))
        again.wire.send("ShareFetch", 2, again.request((0,)))
        until(
            "the request waits",
            lambda: scene.in_loop(lambda: len(scene.broker.background.tasks)) > waits,
        )
        again.wire.close()
        connections = scene.broker.server.connections
        until("the connection is closed", lambda: scene.in_loop(lambda: len(connections)) == 1)
        scene.let_writes()
        until("the release ends", lambda: not scene.in_loop(lambda: len(releases)))
        until(
            "the request ends",
            lambda: scene.in_loop(lambda: len(scene.broker.background.tasks)) <= waits,
        )
        assert not scene.in_loop(lambda: len(scene.broker.share_sessions))

    await on_scene(tmp_path, work)


async def test_records_of_a_removed_share_member_are_released_next_turn_when_the_slice_is_over(
    tmp_path: Path,
) -> None:
    def work(scene: Scene) -> None:
        scene.produce(b"a")
        assert acquired(scene.member("m").open()) == [(0, 0, 1)]
        partitions: Any = scene.broker.share_partitions
        released: list[bool] = []

        def release() -> bool:
            partitions.release_member("g", "m", lambda: released.append(True))
            (live,) = partitions.of_group("g")
            return bool(live.writes)

        scene.in_loop(lambda: setattr(scene.broker.slicer, "slice_ns", 0))
        assert not scene.in_loop(release)
        until("the member is released", lambda: released)
        assert acquired(scene.member("other").open()) == [(0, 0, 2)]

    await on_scene(tmp_path, work)


async def test_share_fetch_beyond_the_session_limit_ends_when_its_client_disconnects(
    tmp_path: Path,
) -> None:
    def work(scene: Scene) -> None:
        def tasks() -> int:
            return scene.in_loop(lambda: len(scene.broker.background.tasks))

        scene.member("m").open(max_wait_ms=0)
        late = scene.member("late")
        assert late.open(max_wait_ms=1)["error_code"] == SHARE_SESSION_LIMIT_REACHED
        late.epoch = 0
        before = tasks()
        scene.send_waiting(late, max_wait_ms=2**31 - 1)
        until("the request waits", lambda: tasks() == before + 1)
        late.wire.close()
        until("the request ends", lambda: tasks() == before, 10)

    await on_scene(tmp_path, work, settings={"group.share.max.share.sessions": "1"})
