"""Tests that committed offsets of deleted topics remain deleted after a kill at any time."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from broker.broker import Broker
from broker.cores.groups.dropped_offsets import DroppedOffsets
from broker.cores.hosted_shard import HostedShard, Phase
from broker.topics.registry import OFFSETS_TOPIC
from protocol.errors import COORDINATOR_LOAD_IN_PROGRESS, NONE, UNKNOWN_TOPIC_OR_PARTITION
from tests.broker.serving import asked, eventually, serving
from tests.broker.topic_calls import create_topic
from tests.broker.topics.test_broken_disks import until_done
from tests.broker.topics.test_deleted_topics import delete
from tests.simulated_files import SimulatedFiles
from tests.wire import Wire

SETTINGS = {"offsets.topic.num.partitions": "4", "log.cleaner.enable": "false"}
DATA = "/data"
GROUPS = [f"group-{number}" for number in range(12)]
"""Groups that are distributed over all four partitions of the offsets topic."""


def commit(wire: Wire, group: str, offset: int, topic: str = "t", partitions: int = 1) -> int:
    rows = [
        {"partition_index": partition, "committed_offset": offset, "committed_metadata": ""}
        for partition in range(partitions)
    ]
    value = {"group_id": group, "topics": [{"name": topic, "partitions": rows}]}
    value |= {"generation_id_or_member_epoch": -1, "member_id": ""}
    answer = wire.call("OffsetCommit", 8, value)
    code: int = answer["topics"][0]["partitions"][0]["error_code"]
    return code


def committed(wire: Wire, group: str, topic: str = "t") -> int:
    """Returns the committed offset of partition 0 after the shard of the group has been loaded."""
    answer: dict[str, Any] = {}
    topics = [{"name": topic, "partition_indexes": [0]}]

    def loading_over() -> int:
        answer.update(wire.call("OffsetFetch", 7, {"group_id": group, "topics": topics}))
        return NONE if answer["error_code"] != COORDINATOR_LOAD_IN_PROGRESS else -1

    until_done(loading_over)
    assert answer["error_code"] == NONE
    offset: int = answer["topics"][0]["partitions"][0]["committed_offset"]
    return offset


def commit_for_all(wire: Wire, offset: int, groups: list[str] = GROUPS) -> None:
    for group in groups:
        until_done(lambda group=group: commit(wire, group, offset))


def create_topics_and_commit(wire: Wire) -> None:
    for topic in ("t", "other"):
        assert create_topic(wire, topic)["error_code"] == NONE
    commit_for_all(wire, 5)
    assert commit(wire, GROUPS[0], 6, "other") == NONE


def no_deletion_pending(broker: Broker) -> bool:
    return not broker.registry.dying


async def test_offsets_of_a_deleted_topic_are_dropped_after_a_kill_that_prevented_tombstones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Otherwise consumers of a new topic with the same name would start at offsets of the deleted
    topic."""
    fs = SimulatedFiles()
    killed: list[SimulatedFiles] = []
    drop = DroppedOffsets.drop

    async def kill_and_drop(self: DroppedOffsets, *args: Any) -> None:
        killed.append(fs.as_killed())
        await drop(self, *args)

    async with serving(DATA, SETTINGS, fs=fs) as broker:
        await broker.topics.ensure(OFFSETS_TOPIC)
        await asked(broker, create_topics_and_commit)
        monkeypatch.setattr(DroppedOffsets, "drop", kill_and_drop)
        await asked(broker, lambda wire: delete(wire, "t"))
        assert no_deletion_pending(broker)
        assert await asked(broker, lambda wire: committed(wire, GROUPS[0])) == -1
        assert await asked(broker, lambda wire: committed(wire, GROUPS[0], "other")) == 6
    monkeypatch.undo()
    (fs,) = killed
    async with serving(DATA, SETTINGS, fs=fs) as broker:

        def begin_anew(wire: Wire) -> None:
            until_done(lambda: create_topic(wire, "t")["error_code"])
            assert [committed(wire, group) for group in GROUPS] == [-1] * len(GROUPS)
            assert committed(wire, GROUPS[0], "other") == 6
            commit_for_all(wire, 7)

        await asked(broker, begin_anew)
        await eventually("nothing is left of it", lambda: no_deletion_pending(broker))
    async with serving(DATA, SETTINGS, fs=fs) as broker:
        found = await asked(broker, lambda wire: [committed(wire, group) for group in GROUPS])
        assert found == [7] * len(GROUPS)


@pytest.mark.parametrize("power", [False, True])
@pytest.mark.parametrize(
    ("protocols", "version_with_old_offsets", "version_at_the_end"),
    [("classic", 2, 1), ("classic,consumer", 3, 3)],
    ids=["classic", "classic,consumer"],
)
async def test_offsets_of_a_recreated_topic_are_kept_when_older_offsets_are_dropped(
    protocols: str,
    version_with_old_offsets: int,
    version_at_the_end: int,
    power: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Half of the shards drop the offsets of the deleted topic, then the broker is killed. For each
    other shard, the topic list stores a log offset: all commits below it belong to the deleted
    topic. After a power loss, the shard's log can end before this offset. New commits for the
    recreated topic can then be below the stored offset, and must be kept."""
    settings = SETTINGS | {"group.coordinator.rebalance.protocols": protocols}
    fs = SimulatedFiles()
    begin = DroppedOffsets._begin

    def only_some(
        self: DroppedOffsets, hosted: HostedShard, done: asyncio.Future[None] | None
    ) -> None:
        if hosted.index % 2:
            begin(self, hosted, done)
        elif done is not None:
            done.set_result(None)

    monkeypatch.setattr(DroppedOffsets, "_begin", only_some)
    async with serving(DATA, settings, fs=fs) as broker:
        await broker.topics.ensure(OFFSETS_TOPIC)
        await asked(broker, create_topics_and_commit)
        ends = [hosted.log.log_end_offset for hosted in broker.groups.hosted_shards]

        def again(wire: Wire) -> None:
            assert delete(wire, "t") == {"t": NONE}
            assert create_topic(wire, "t")["error_code"] == NONE
            commit_for_all(wire, 7, GROUPS[::2])

        await asked(broker, again)
        list_now = json.loads(fs.written(f"{DATA}/topics.json"))
        assert list_now["version"] == version_with_old_offsets
        (deleted,) = [entry for entry in list_now["topics"] if entry.get("deleted")]
        assert deleted["offsets_below"] == {"0": ends[0], "2": ends[2]}
        killed = fs.as_killed()
    monkeypatch.undo()
    if power:
        for partition in range(4):  # These bytes are the new commits and some of the old commits.
            inode = killed.names[f"{DATA}/__consumer_offsets-{partition}/{0:020d}.log"]
            del inode.data[:]
    async with serving(DATA, settings, fs=killed) as broker:
        if power:
            entry = broker.registry.dying.get("t")
            assert entry is None or not any((entry.offsets_below or {}).values())
            await asked(broker, lambda wire: commit_for_all(wire, 7, GROUPS[::2]))
        found = await asked(broker, lambda wire: [committed(wire, group) for group in GROUPS])
        assert found == [7, -1] * (len(GROUPS) // 2)
        await eventually("nothing is left of it", lambda: no_deletion_pending(broker))
        killed = killed.as_killed()
    async with serving(DATA, settings, fs=killed) as broker:
        found = await asked(broker, lambda wire: [committed(wire, group) for group in GROUPS])
        assert found == [7, -1] * (len(GROUPS) // 2)
        list_now = json.loads(killed.written(f"{DATA}/topics.json"))
        assert list_now["version"] == version_at_the_end


async def test_offsets_of_a_deleted_topic_are_dropped_after_the_disk_was_full() -> None:
    """The topic is deleted while the disk is full, so the shards can't write tombstones. A new
    topic with the same name is created before they write them. The registry stores the deletion
    until the tombstones are written."""
    fs = SimulatedFiles()
    async with serving(DATA, SETTINGS, fs=fs) as broker:
        await broker.topics.ensure(OFFSETS_TOPIC)
        await asked(broker, create_topics_and_commit)
        taken = fs.room(0)
        fs.capacity_bytes -= taken

        assert await asked(broker, lambda wire: delete(wire, "t")) == {"t": NONE}

        assert not no_deletion_pending(broker)
        killed = fs.as_killed()
        fs.capacity_bytes += taken
        await asked(broker, lambda wire: create_topic(wire, "t"))
        await eventually(
            "every shard takes writes again",
            lambda: all(hosted.phase is Phase.ACTIVE for hosted in broker.groups.hosted_shards),
        )
        await eventually("nothing is left of it", lambda: no_deletion_pending(broker))
        found = await asked(broker, lambda wire: [committed(wire, group) for group in GROUPS])
        assert found == [-1] * len(GROUPS)
    killed.capacity_bytes += taken
    async with serving(DATA, SETTINGS, fs=killed) as broker:
        await asked(broker, lambda wire: until_done(lambda: create_topic(wire, "t")["error_code"]))
        found = await asked(broker, lambda wire: [committed(wire, group) for group in GROUPS])
        assert found == [-1] * len(GROUPS)


async def test_offset_fetch_omits_offsets_of_deleted_topic_when_disk_is_full() -> None:
    """If OffsetFetch returned these offsets, consumers of a new topic with the same name would
    start at offsets of the deleted topic."""
    fs = SimulatedFiles()
    partitions = 2000

    def fetched(wire: Wire, topics: list[str] | None) -> tuple[int, dict[str, set[int]]]:
        rows = [{"name": name, "partition_indexes": [*range(partitions)]} for name in topics or ()]
        rows_or_all = None if topics is None else rows
        answer = wire.call("OffsetFetch", 7, {"group_id": GROUPS[0], "topics": rows_or_all})
        return answer["error_code"], {
            topic["name"]: {each["committed_offset"] for each in topic["partitions"]}
            for topic in answer["topics"]
        }

    async with serving(DATA, SETTINGS, fs=fs) as broker:
        await broker.topics.ensure(OFFSETS_TOPIC)
        await asked(broker, create_topics_and_commit)
        broker.registry.topics["t"] = broker.registry.topics["t"].with_partitions(partitions)
        await asked(broker, lambda wire: commit(wire, GROUPS[0], 7, partitions=partitions))
        broker.registry.topics["t"] = broker.registry.topics["t"].with_partitions(1)
        taken = fs.room(0)
        fs.capacity_bytes -= taken
        assert await asked(broker, lambda wire: delete(wire, "t")) == {"t": NONE}
        hosted = broker.groups.hosted_for(GROUPS[0])
        assert hosted is not None
        await eventually("it is loaded again", lambda: hosted.phase is Phase.UNWRITABLE)

        def look(wire: Wire) -> None:
            loading = (COORDINATOR_LOAD_IN_PROGRESS, {})
            assert fetched(wire, ["other", "t"]) == loading
            assert fetched(wire, None) == loading
            assert fetched(wire, ["other"]) == (NONE, {"other": {6, -1}})

        await asked(broker, look)
        fs.capacity_bytes += taken

        def look_until_all_is_dropped(wire: Wire) -> None:
            answers: list[tuple[int, dict[str, set[int]]]] = []

            def over() -> int:
                answers.append(fetched(wire, ["t"]))
                return answers[-1][0]

            until_done(over)
            assert answers[-1] == (NONE, {"t": {-1}})

        await asked(broker, look_until_all_is_dropped)
        await eventually("nothing is left of it", lambda: no_deletion_pending(broker))


async def test_offsets_of_a_deleted_topic_are_dropped_in_small_appends() -> None:
    """Each append has at most 500 of the 5,000 tombstones, so that heartbeats are not delayed."""
    fs = SimulatedFiles()
    partitions = 5000
    async with serving(DATA, SETTINGS, fs=fs) as broker:
        await broker.topics.ensure(OFFSETS_TOPIC)

        def fill(wire: Wire) -> None:
            assert create_topic(wire, "t")["error_code"] == NONE
            until_done(lambda: commit(wire, "group", 1))

        await asked(broker, fill)
        hosted = broker.groups.hosted_for("group")
        assert hosted is not None
        topic = broker.registry.topics["t"]
        broker.registry.topics["t"] = topic.with_partitions(partitions)
        await asked(broker, lambda wire: commit(wire, "group", 2, partitions=partitions))
        broker.registry.topics["t"] = topic
        appends: list[int] = []
        append = hosted.append

        def counted(*args: Any) -> None:
            before = hosted.appended
            append(*args)
            appends.append(hosted.appended - before)

        hosted.append = counted  # type: ignore[method-assign]
        assert await asked(broker, lambda wire: delete(wire, "t")) == {"t": NONE}

        assert sum(appends) == partitions
        assert max(appends) <= 500
        assert not hosted.core.view.offsets.count()


async def test_offset_delete_of_many_partitions_uses_small_appends_and_one_response() -> None:
    fs = SimulatedFiles()
    partitions = 2000
    async with serving(DATA, SETTINGS, fs=fs) as broker:
        await broker.topics.ensure(OFFSETS_TOPIC)

        def fill(wire: Wire) -> None:
            assert create_topic(wire, "t", 3)["error_code"] == NONE
            assert create_topic(wire, "u")["error_code"] == NONE
            until_done(lambda: commit(wire, "group", 1, partitions=3))

        await asked(broker, fill)
        broker.registry.topics["u"] = broker.registry.topics["u"].with_partitions(partitions)
        await asked(broker, lambda wire: commit(wire, "group", 2, "u", partitions))
        hosted = broker.groups.hosted_for("group")
        assert hosted is not None
        before = hosted.log.log_end_offset

        def drop(wire: Wire) -> list[int]:
            topics = [("t", range(2)), ("none", range(1)), ("u", range(partitions + 1))]
            rows = [
                {"name": name, "partitions": [{"partition_index": each} for each in numbers]}
                for name, numbers in topics
            ]
            answer = wire.call("OffsetDelete", 0, {"group_id": "group", "topics": rows})
            assert answer["error_code"] == NONE
            assert [topic["name"] for topic in answer["topics"]] == ["t", "none", "u"]
            return [
                entry["error_code"] for topic in answer["topics"] for entry in topic["partitions"]
            ]

        codes = await asked(broker, drop)

        unknown = UNKNOWN_TOPIC_OR_PARTITION
        assert codes == [NONE, NONE, unknown, *[NONE] * partitions, unknown]
        assert hosted.core.view.offsets.count() == 1
        sizes = [header.record_count for _, header in hosted.log.scan(before)]
        assert sum(sizes) == partitions + 2
        assert max(sizes) <= 500
