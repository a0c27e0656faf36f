"""Large acknowledgements and many ends of sessions are handled piece by piece, and requests of
disconnected clients are dropped."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from protocol.errors import INVALID_REQUEST, NONE, SHARE_SESSION_LIMIT_REACHED
from share.partition.acknowledgement import PIECE
from tests.broker.share_calls import ACCEPT, REJECT, acquired
from tests.broker.share_scene import Scene, on_scene
from tests.waiting import until

RECORDS = 2 * PIECE + 200


def pieces_of(scene: Scene) -> list[int]:
    """Returns a list that gets the number of acknowledge types in each later piece."""
    found: list[int] = []
    partitions: Any = scene.broker.share_partitions
    acknowledge: Callable[..., None] = partitions.acknowledge

    def spy(live: Any, member_id: str, batches: Any, done: Any, **more: Any) -> None:
        found.append(sum([len(types) for _, _, types in batches]))
        acknowledge(live, member_id, batches, done, **more)

    partitions.acknowledge = spy
    return found


async def test_large_acknowledgement_is_applied_in_pieces(tmp_path: Path) -> None:
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


async def test_large_acknowledgement_with_an_error_applies_nothing(tmp_path: Path) -> None:
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


async def test_members_are_released_later_when_the_time_of_the_turn_is_used_up(
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


async def test_request_beyond_the_session_limit_ends_when_its_client_disconnects(
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
