"""`muster share` in a cluster: for each share partition, the output shows the data of its leader,
and it names the leaders that do not answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cli.http import every_api
from cli.share import reading
from cli.share.reading import _best
from protocol.errors import NONE
from tests.broker.cluster.members import GROUP, Members, members
from tests.broker.cluster.share_members import (
    SETTINGS,
    TOPIC,
    consumed,
    joined,
    produced,
    read_from_the_start,
    set_level,
)
from tests.broker.share_calls import ACCEPT, REJECT, RELEASE
from tests.cli.running import Ran, run
from tests.cli.share.test_share import in_loop

PARTITIONS = 3


@asynccontextmanager
async def shared(directory: Path) -> AsyncIterator[Members]:
    """Yields a cluster whose three brokers lead one partition each, from which the group g reads.
    In each partition, record 0 was rejected and record 1 was released."""
    settings = {**SETTINGS, "http.listener": "127.0.0.1:0"}
    async with members(directory, settings) as cluster:
        assert (await set_level(cluster, 1))["error_code"] == NONE
        await cluster.create(TOPIC, PARTITIONS)
        await read_from_the_start(cluster)
        await joined(cluster, PARTITIONS)
        for partition in range(PARTITIONS):
            await produced(cluster, b"a", b"b", b"c", partition=partition)
            said = (0, 0, [REJECT]), (1, 1, [RELEASE]), (2, 2, [ACCEPT])
            await consumed(cluster, *said, partition=partition)
        yield cluster


async def share(cluster: Members, *words: str) -> Ran:
    host, port = next(iter(cluster.brokers.values())).sockets.addresses()[0]
    return await asyncio.to_thread(run, "share", *words, "-b", f"{host}:{port}")


@in_loop
async def test_share_commands_show_what_each_leader_knows_and_name_a_silent_leader(
    tmp_path: Path,
) -> None:
    """Takes 3 s, because it needs three whole brokers."""
    async with shared(tmp_path) as cluster:
        leaders = [await cluster.leader(TOPIC, each) for each in range(PARTITIONS)]
        assert len({each.registry.node_id for each in leaders}) == PARTITIONS
        told = await share(cluster, "why", "g")
        one = [await share(cluster, "why", "g", f"{TOPIC}:{each}@0") for each in range(PARTITIONS)]
        described = (await share(cluster, "describe", "g", "--json")).json
        peeked = [
            await share(cluster, "peek", "g", f"{TOPIC}:{each}") for each in range(PARTITIONS)
        ]
        await check_silent_leader(cluster, [each.registry.node_id for each in leaders])
    assert (told.code, told.err) == (0, "")
    for partition in range(PARTITIONS):
        assert (
            f"{TOPIC}-{partition}: complete before offset 1, 1 record to deliver again" in told.out
        )
        assert "because a member rejected it" in one[partition].out
        assert "wire (m) from 127.0.0.1 rejected it" in one[partition].out
        table = peeked[partition].out.partition("OFFSET")[2]  # a busy broker may log a line before
        assert [line.split()[:2] for line in table.splitlines()[1:]] == [["1", "again"]]
    rows = described["partitions"]
    assert [(row["partition"], row["loaded"], row["log_end_offset"]) for row in rows] == [
        (each, True, 3) for each in range(PARTITIONS)
    ]
    assert described["unanswered"] == []


async def check_silent_leader(cluster: Members, leaders: list[int]) -> None:
    """Checks the commands while a leader that is not the coordinator of the group is silent."""
    coordinator = (await cluster.coordinator("g", GROUP)).registry.node_id
    partition = next(number for number, node in enumerate(leaders) if node != coordinator)
    silent = leaders[partition]

    def without(*given: Any) -> dict[int, Any]:
        return {**every_api(*given), silent: "connection refused"}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "every_api", without)
        told = await share(cluster, "why", "g")
        described = await share(cluster, "describe", "g", "--json")
    name = f"{TOPIC}-{partition}"
    assert told.err == (
        f"muster: deliveries in {name} may be missing: broker {silent} did not report"
        " these deliveries (connection refused)\n"
    )
    assert "because a member rejected it" in told.out
    assert described.json["unanswered"] == [
        {"broker": silent, "why": "connection refused", "partitions": [name]}
    ]
    assert [row["loaded"] for row in described.json["partitions"]] == [
        node != silent for node in leaders
    ]


def view(*, loaded: bool, start: int | None, end: int | None) -> dict[str, Any]:
    following = None if start is None else start + 2
    return {
        "loaded": loaded,
        "start_offset": start,
        "next_offset": following,
        "log_start_offset": None if end is None else 0,
        "log_end_offset": end,
        "unread": None,
    }


def test_share_partition_whose_state_is_not_loaded_shows_the_stored_state_and_log_offsets() -> None:
    led = view(loaded=False, start=None, end=9)
    stored = view(loaded=False, start=4, end=None)
    behind = view(loaded=False, start=None, end=7)
    best = _best(behind, 1, {1: led, 2: stored})
    assert best == {**stored, "log_start_offset": 0, "log_end_offset": 9, "unread": 3}
    assert _best(stored, 1, {}) == stored
    assert _best(behind, 1, {1: led})["log_end_offset"] == 9
    loaded = view(loaded=True, start=5, end=9)
    assert _best(stored, 1, {1: loaded, 2: stored}) == loaded


def test_share_why_names_the_partition_without_a_leader(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    partitions = [{"partition_index": 0, "leader_id": -1}]
    answer = {"brokers": [1, 2], "topics": [{"name": TOPIC, "partitions": partitions}]}
    cluster: Any = SimpleNamespace(
        metadata=lambda *_: answer, deadline=SimpleNamespace(left_s=lambda: 1)
    )
    monkeypatch.setattr(reading, "every_api", lambda *_: {})
    row = {**view(loaded=False, start=4, end=None), "topic": TOPIC, "partition": 0}
    row |= {"in_flight": [], "histories": []}
    found = {"partitions": [row], "members": [], "unanswered": []}
    reading._read_leaders(cluster, "share why", "/api/share/g", {}, found)
    assert found["partitions"] == [row]
    [unanswered] = found["unanswered"]
    assert (unanswered["broker"], unanswered["partitions"]) == (-1, [f"{TOPIC}-0"])
    assert capsys.readouterr().err == (
        f"muster: deliveries in {TOPIC}-0 may be missing: the partitions have no leader\n"
    )
