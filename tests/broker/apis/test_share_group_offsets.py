"""Tests DescribeShareGroupOffsets, AlterShareGroupOffsets and DeleteShareGroupOffsets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from protocol.errors import (
    GROUP_ID_NOT_FOUND,
    INVALID_GROUP_ID,
    INVALID_REQUEST,
    NON_EMPTY_GROUP,
    NONE,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from tests.broker.share_calls import ACCEPT, acquired
from tests.broker.share_scene import Scene, on_scene
from tests.broker.transactional_calls import GROUP, find

NO_OFFSETS = "There is no offset information to delete."


def alter(scene: Scene, offsets: dict[int, int], topic: str = "t", group: str = "g") -> Any:
    partitions = [{"partition_index": p, "start_offset": o} for p, o in offsets.items()]
    topics = [{"topic_name": topic, "partitions": partitions}]
    return scene.wire.call("AlterShareGroupOffsets", 0, {"group_id": group, "topics": topics})


def codes(reply: dict[str, Any]) -> dict[int, int]:
    assert reply["error_code"] == NONE, reply
    (topic,) = reply["responses"]
    return {each["partition_index"]: each["error_code"] for each in topic["partitions"]}


def describe(
    scene: Scene, partitions: list[int] | None = None, topic: str = "t", version: int = 1
) -> Any:
    """Returns start offset, lag and error code of each partition in ``partitions``. None means all
    partitions of the group."""
    topics = None if partitions is None else [{"topic_name": topic, "partitions": partitions}]
    asked = [{"group_id": "g", "topics": topics}]
    reply = scene.wire.call("DescribeShareGroupOffsets", version, {"groups": asked})
    (group,) = reply["groups"]
    assert group["error_code"] == NONE
    return {
        each["partition_index"]: (each["start_offset"], each["lag"], each["error_code"])
        for topic in group["topics"]
        for each in topic["partitions"]
    }


def delete(scene: Scene, *topics: str, group: str = "g") -> Any:
    named = [{"topic_name": name} for name in topics]
    return scene.wire.call("DeleteShareGroupOffsets", 0, {"group_id": group, "topics": named})


def results(reply: dict[str, Any]) -> list[tuple[str, int, str | None]]:
    assert reply["error_code"] == NONE, reply
    return [
        (each["topic_name"], each["error_code"], each["error_message"])
        for each in reply["responses"]
    ]


def join(scene: Scene, epoch: int = 0) -> int:
    request = {"group_id": "g", "member_id": "m" * 22, "member_epoch": epoch}
    names = ["t"] if not epoch else None
    code: int = scene.wire.call(
        "ShareGroupHeartbeat", 1, {**request, "subscribed_topic_names": names}
    )["error_code"]
    return code


async def test_altered_share_group_offsets_are_described_and_apply_to_fetches(
    tmp_path: Path,
) -> None:
    def work(scene: Scene) -> None:
        find(scene.wire, "g", GROUP)
        for value in (b"a", b"b", b"c", b"d"):
            scene.produce(value)
        assert describe(scene, [0, 1, 9]) == {0: (-1, -1, 0), 1: (-1, -1, 0), 9: (-1, -1, 0)}
        assert codes(alter(scene, {0: 1, 7: 0, 1: -2})) == {
            0: NONE,
            7: UNKNOWN_TOPIC_OR_PARTITION,
            1: INVALID_REQUEST,
        }
        assert codes(alter(scene, {0: 0}, "unknown")) == {0: UNKNOWN_TOPIC_OR_PARTITION}
        assert describe(scene) == {0: (1, 3, NONE)}
        assert describe(scene, [0], version=0)[0][0] == 1
        assert describe(scene, [0], "unknown") == {0: (-1, -1, NONE)}
        member = scene.member("m")
        assert acquired(member.open()) == [(1, 3, 1)]
        assert member.acknowledge((1, 1, [ACCEPT]), (3, 3, [ACCEPT])) == NONE
        assert describe(scene)[0][1] == 1
        member.close()
        # the share partition in memory is replaced
        assert codes(alter(scene, {0: 2})) == {0: NONE}
        assert acquired(member.open()) == [(2, 3, 1)]

    await on_scene(tmp_path, work, partitions=2, is_initialized=False)


async def test_share_offsets_cannot_be_changed_in_a_group_with_members_or_of_another_type(
    tmp_path: Path,
) -> None:
    def work(scene: Scene) -> None:
        find(scene.wire, "g", GROUP)
        assert alter(scene, {0: 0}, group="")["error_code"] == INVALID_GROUP_ID
        assert delete(scene, "t", group="")["error_code"] == INVALID_GROUP_ID
        assert delete(scene, "t")["error_code"] == GROUP_ID_NOT_FOUND
        assert join(scene) == NONE
        reply = alter(scene, {0: 0})
        assert (reply["error_code"], reply["error_message"]) == (
            NON_EMPTY_GROUP,
            "The group is not empty.",
        )
        assert delete(scene, "t")["error_code"] == NON_EMPTY_GROUP
        committed = {
            "group_id": "classic",
            "topics": [
                {"name": "t", "partitions": [{"partition_index": 0, "committed_offset": 1}]}
            ],
        }
        scene.wire.call("OffsetCommit", 8, committed)
        assert alter(scene, {0: 0}, group="classic")["error_code"] == GROUP_ID_NOT_FOUND
        assert delete(scene, "t", group="classic")["error_code"] == GROUP_ID_NOT_FOUND

    await on_scene(tmp_path, work, is_initialized=False)


async def test_deleted_share_group_offsets_are_not_described_any_more(tmp_path: Path) -> None:
    def work(scene: Scene) -> None:
        find(scene.wire, "g", GROUP)
        scene.produce(b"a")
        assert codes(alter(scene, {0: 0, 1: 0})) == {0: NONE, 1: NONE}
        assert describe(scene) == {0: (0, 1, NONE), 1: (0, 0, NONE)}
        assert results(delete(scene, "t", "unknown")) == [
            ("t", NONE, None),
            (
                "unknown",
                UNKNOWN_TOPIC_OR_PARTITION,
                "This server does not host this topic-partition.",
            ),
        ]
        assert describe(scene) == {}
        assert describe(scene, [0]) == {0: (-1, -1, NONE)}
        assert results(delete(scene, "t")) == [("t", UNKNOWN_TOPIC_OR_PARTITION, NO_OFFSETS)]

    await on_scene(tmp_path, work, partitions=2, is_initialized=False)
