"""Tests a share group from the first heartbeat to the last, with group coordinator, share partition
and share coordinator on one broker."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from protocol.errors import NONE, SHARE_SESSION_NOT_FOUND
from tests.broker.serving import asked, serving
from tests.broker.share_calls import ACCEPT, ShareMember, acquired, values
from tests.broker.share_scene import Scene, on_scene
from tests.broker.topic_calls import topic_id
from tests.broker.transactional_calls import GROUP, find
from tests.waiting import until
from tests.wire import Wire

SETTINGS = {"group.share.assignment.interval.ms": "0"}


def configure(wire: Wire, name: str, value: str) -> None:
    config = {"name": name, "value": value, "config_operation": 0}
    resource = {"resource_type": 32, "resource_name": "g", "configs": [config]}
    request = {"resources": [resource], "validate_only": False}
    (reply,) = wire.call("IncrementalAlterConfigs", 1, request)["responses"]
    assert reply["error_code"] == NONE, reply


def beat(wire: Wire, member_id: str, epoch: int, *topics: str) -> dict[str, Any]:
    request = {"group_id": "g", "member_id": member_id, "member_epoch": epoch, "rack_id": None}
    names = list(topics) or None
    return wire.call("ShareGroupHeartbeat", 1, {**request, "subscribed_topic_names": names})


def join(wire: Wire, member_id: str) -> None:
    """Joins share group g, and waits for partition 0 of topic t."""
    epoch = 0

    def is_assigned() -> bool:
        nonlocal epoch
        reply = beat(wire, member_id, epoch, *(() if epoch else ("t",)))
        assert reply["error_code"] == NONE, reply
        epoch = reply["member_epoch"]
        assignment = reply["assignment"]
        return bool(assignment and assignment["topic_partitions"])

    until("a partition is assigned", is_assigned)


@pytest.mark.proves("share 5")
async def test_share_member_that_leaves_loses_its_share_session_and_releases_its_records(
    tmp_path: Path,
) -> None:
    def work(scene: Scene) -> None:
        find(scene.wire, "g", GROUP)
        configure(scene.wire, "share.auto.offset.reset", "earliest")
        scene.produce(b"a")
        one, other = scene.member("one"), scene.member("other")
        for member in (one, other):
            join(scene.wire, member.member_id)
        assert acquired(one.open()) == [(0, 0, 1)]
        other.open(max_wait_ms=0)
        assert beat(scene.wire, "one", -1)["error_code"] == NONE
        assert acquired(other.fetch(max_wait_ms=5_000)) == [(0, 0, 2)]
        request = one.request((0,))
        assert one.wire.call("ShareFetch", 2, request)["error_code"] == SHARE_SESSION_NOT_FOUND

    await on_scene(tmp_path, work, is_initialized=False, settings=SETTINGS)


async def test_altered_share_group_settings_apply_to_the_next_share_fetch(tmp_path: Path) -> None:
    def work(scene: Scene) -> None:
        find(scene.wire, "g", GROUP)
        configure(scene.wire, "share.auto.offset.reset", "by_duration:PT1H")
        scene.produce(b"older than an hour")  # the batches of the tests have old timestamps
        join(scene.wire, "m")
        member = scene.member("m")
        assert acquired(member.open(max_wait_ms=0)) == []
        scene.until_loaded()
        configure(scene.wire, "share.record.lock.duration.ms", "20000")
        scene.produce(b"new")
        reply = member.fetch(max_wait_ms=5_000)
        assert (values(reply), reply["acquisition_lock_timeout_ms"]) == ([b"new"], 20_000)

    await on_scene(tmp_path, work, is_initialized=False, settings=SETTINGS)


async def test_delivery_state_of_share_group_records_survives_a_restart(tmp_path: Path) -> None:
    def before(scene: Scene) -> None:
        scene.produce(b"a", b"b", b"c")
        member = scene.member("m")
        assert acquired(member.open()) == [(0, 2, 1)]
        assert member.acknowledge((1, 1, [ACCEPT])) == NONE

    await on_scene(tmp_path, before)

    def after(wire: Wire) -> None:
        member = ShareMember(wire, topic_id(wire, "t"))
        found = []
        member.open(max_wait_ms=0)
        while sum(last - first + 1 for first, last, _ in found) < 2:
            found += acquired(member.fetch(max_wait_ms=5_000))
        # the release at the end of the session may or may not be stored
        assert [(first, last) for first, last, _ in found] == [(0, 0), (2, 2)]

    async with serving(tmp_path) as broker:
        await asked(broker, after)
