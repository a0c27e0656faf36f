"""Scenarios in which offsets expire by age, or are removed because their topic is deleted.

OffsetCommit version 1 contains a timestamp, so that a new commit can be an hour old. Of the two
Kafka brokers, only 3.9.2 serves this version. The brokers check for expired offsets every CHECK_MS,
and retain offsets for one minute.
"""

from __future__ import annotations

import time
import uuid
from typing import Any

from tests.interop.differential.clients import NONE, Client, ScenarioGroup, Since

CHECK_MS = 500
LONG_MS = 60000
HOUR_MS = 3600 * 1000
GONE = -1
RETENTION_SETTINGS = {
    "offsets.retention.check.interval.ms": str(CHECK_MS),
    "offsets.retention.minutes": "1",
}


async def _commit(client: Client, topic: str, partition: int, **how: Any) -> int:
    """Commits offset 7. With ``age_ms``, the request has version 1. With ``retention_ms``, it has
    version 2."""
    wanted = 1 if "age_ms" in how else 2
    version = client.group.target.clamp("OffsetCommit", wanted)
    entry: dict[str, Any] = {
        "partition_index": partition,
        "committed_offset": 7,
        "committed_metadata": "",
    }
    value: dict[str, Any] = {
        "generation_id_or_member_epoch": client.generation,
        "member_id": client.member_id,
        "topics": [{"name": topic, "partitions": [entry]}],
    }
    if version == 1:
        entry["commit_timestamp"] = int(time.time() * 1000) - how["age_ms"]
    else:
        value["retention_time_ms"] = how.get("retention_ms", -1)
    answer = await (await client.ask("OffsetCommit", version, **value))
    code: int = answer["topics"][0]["partitions"][0]["error_code"]
    return code


async def _committed(client: Client, topic: str, partition: int) -> int:
    asked = [{"name": topic, "partition_indexes": [partition]}]
    answer = await (await client.ask("OffsetFetch", 2, topics=asked))
    offset: int = answer["topics"][0]["partitions"][0]["committed_offset"]
    return offset


async def _until_gone(client: Client, topic: str, partition: int) -> str:
    return await client.group.until(lambda: _committed(client, topic, partition), GONE, 10)


async def _two_looks(group: ScenarioGroup) -> None:
    """Waits until the broker has checked twice for expired offsets. To detect each check, commits
    an offset of another group that has already expired, and waits until this offset is removed."""
    witness = ScenarioGroup(group.target, f"witness-{uuid.uuid4().hex[:6]}")
    for _ in range(2):
        client = witness.client("witness")
        assert await _commit(client, "t0", 0, retention_ms=1) == NONE
        await _until_gone(client, "t0", 0)
    witness.close()


async def an_old_commit_of_nobody_expires(group: ScenarioGroup) -> None:
    """An offset expires if it is older than the retention, and its group has no members and no
    protocol type."""
    a = group.client("a")
    group.saw(await _commit(a, "t0", 0, age_ms=HOUR_MS), await _commit(a, "t0", 1, age_ms=0))
    group.saw("the old one:", await _until_gone(a, "t0", 0))
    group.saw("the new one:", await _committed(a, "t0", 1))


async def a_stable_group_keeps_what_it_subscribes_to(group: ScenarioGroup) -> None:
    """The members of a stable group subscribe only to topic t0. Offsets of other topics expire."""
    a = group.client("a")
    await group.form(a, session_ms=LONG_MS, rebalance_ms=LONG_MS)
    group.saw(await _commit(a, "t0", 0, age_ms=HOUR_MS), await _commit(a, "t1", 0, age_ms=HOUR_MS))
    group.saw("of t1:", await _until_gone(a, "t1", 0))
    await _two_looks(group)
    group.saw("of t0:", await _committed(a, "t0", 0))


async def an_emptied_group_keeps_its_offsets(group: ScenarioGroup) -> None:
    """After the last member has left, the retention of offsets starts when the group becomes empty,
    not at the commits."""
    a = group.client("a")
    await group.form(a, session_ms=LONG_MS, rebalance_ms=LONG_MS)
    group.saw(await _commit(a, "t1", 0, age_ms=0), await _commit(a, "t0", 0, age_ms=HOUR_MS))
    answer = await (await a.ask("LeaveGroup", 1, member_id=a.member_id))
    group.saw("a leaves:", answer["error_code"])
    await _two_looks(group)
    group.saw("of t0:", await _committed(a, "t0", 0), "of t1:", await _committed(a, "t1", 0))


async def a_retention_time_of_its_own(group: ScenarioGroup) -> None:
    """OffsetCommit versions 2 to 4 can set the retention time of an offset."""
    a = group.client("a")
    began = Since()
    group.saw(await _commit(a, "t0", 0, retention_ms=700), await _commit(a, "t0", 1))
    group.saw("gone:", await _until_gone(a, "t0", 0), began.took(0.7))
    group.saw("the other:", await _committed(a, "t0", 1))


async def a_topic_is_deleted(group: ScenarioGroup) -> None:
    """The deletion of a topic removes the committed offsets of this topic only."""
    a = group.client("a")
    topic = f"short-lived-{uuid.uuid4().hex[:6]}"
    made = [{"name": topic, "num_partitions": 1, "replication_factor": 1}]
    wire = await group.target.open("admin")
    await wire.send("CreateTopics", 4, {"topics": made, "timeout_ms": 20000})

    async def commit() -> int:
        return await _commit(a, topic, 0)

    group.saw("commits:", await group.until(commit, NONE), await _commit(a, "t0", 0))
    group.saw("fetches:", await _committed(a, topic, 0))
    gone = await wire.send("DeleteTopics", 3, {"topic_names": [topic], "timeout_ms": 20000})
    group.saw("deletes:", gone["responses"][0]["error_code"])
    group.saw("of it:", await _until_gone(a, topic, 0))
    group.saw("of t0:", await _committed(a, "t0", 0))
    wire.close()


RETENTION_SCENARIOS = (
    an_old_commit_of_nobody_expires,
    a_stable_group_keeps_what_it_subscribes_to,
    an_emptied_group_keeps_its_offsets,
    a_retention_time_of_its_own,
    a_topic_is_deleted,
)
