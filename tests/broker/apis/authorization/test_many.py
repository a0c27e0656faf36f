"""Tests that the authorization of a request with many denied names runs in slices.

Each slice of these brokers ends immediately, so that the work yields to the event loop as often as
possible.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.apis.produce import producing
from broker.net.authorization_cache import NAME_KEPT_MAX
from protocol.errors import NONE, TOPIC_AUTHORIZATION_FAILED, UNKNOWN_TOPIC_OR_PARTITION
from tests.broker.apis.authorization.asking import (
    GROUP,
    Asking,
    Value,
    by_name,
    codes,
    commit,
    fetch,
    guarded_broker,
    list_offsets,
    metadata,
    produce,
)
from tests.broker.apis.authorization.rules import ADMIN
from tests.broker.counting import counted
from tests.wire import Wire

MANY = 600
NAMES = [f"hidden-{number}" for number in range(MANY)]
DENIED = {TOPIC_AUTHORIZATION_FAILED}


def offset_fetch(*topics: str) -> Value:
    named = [{"name": name, "partition_indexes": [0]} for name in topics]
    return {"group_id": GROUP, "topics": named}


async def pauses_of(asking: Asking, user: str, api: str, version: int, value: Value) -> int:
    """Sends a request with many denied topics. Returns how often the work on the request yielded to
    the event loop."""
    turns = counted(asking.broker.slicer, "turn")
    answer = await asking.ask(user, api, version, value)
    assert codes(answer) >= DENIED
    return len(turns)


@pytest.fixture(autouse=True)
def _no_time_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producing, "SLICE_NS", -1)


async def test_produce_authorization_yields_to_event_loop_after_each_topic(tmp_path: Path) -> None:
    async with guarded_broker(tmp_path, "alice: WRITE TOPIC absent-*") as asking:
        asking.broker.slicer.slice_ns = -1
        turns = await pauses_of(asking, "alice", "Produce", 7, produce("absent-1", *NAMES))
        assert turns > MANY
        assert len([each for each in asking.rules.asked if each.name in NAMES]) == MANY


FEW = [f"hidden-{number}" for number in range(60)]


@pytest.mark.parametrize(
    ("api", "version", "value"),
    [
        ("Produce", 7, produce(*FEW)),
        ("Fetch", 11, fetch(*FEW)),
        ("Fetch", 11, fetch(*FEW, session_epoch=0)),
        ("OffsetCommit", 8, commit(*FEW)),
        ("OffsetFetch", 5, offset_fetch(*FEW)),
        ("ListOffsets", 5, list_offsets(*FEW)),
        ("Metadata", 9, metadata(*FEW)),
        ("DescribeTopicPartitions", 0, {"topics": [{"name": name} for name in FEW]}),
        ("DeleteTopics", 5, {"topic_names": FEW}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_authorization_of_each_api_yields_to_event_loop_after_each_name(
    tmp_path: Path, api: str, version: int, value: Value
) -> None:
    """Even a request with a few names must yield, because one decision is slow when ACLs have
    prefixes of many lengths."""
    async with guarded_broker(tmp_path, f"alice: READ GROUP {GROUP}") as asking:
        asking.broker.slicer.slice_ns = -1
        assert await pauses_of(asking, "alice", api, version, value) >= len(FEW)
        denied = [each for each in asking.rules.asked if each.name in FEW]
        assert {each.name for each in denied} == set(FEW)


async def test_fetch_yields_to_the_event_loop_after_each_partition(tmp_path: Path) -> None:
    names = tuple(f"topic-{number}" for number in range(60))
    async with guarded_broker(tmp_path, topics=names) as asking:
        assert codes(await asking.ask(ADMIN, "Fetch", 11, fetch(*names))) == {NONE}
        asking.broker.slicer.slice_ns = -1
        turns = counted(asking.broker.slicer, "turn")
        assert codes(await asking.ask(ADMIN, "Fetch", 11, fetch(*names))) == {NONE}
        assert len(turns) >= len(names)


async def test_list_groups_yields_to_the_event_loop_after_each_group(tmp_path: Path) -> None:
    async with guarded_broker(tmp_path) as asking:
        for number in range(60):
            await asking.ask(ADMIN, "OffsetCommit", 8, commit("orders", group=f"g{number}"))
        asking.broker.slicer.slice_ns = -1
        turns = counted(asking.broker.slicer, "turn")
        answer = await asking.ask("alice", "ListGroups", 4, {"states_filter": []})
        assert answer["groups"] == []
        assert len(turns) >= 60


async def test_produce_authorizes_the_transactional_id_before_the_topics(tmp_path: Path) -> None:
    async with guarded_broker(tmp_path) as asking:
        value = produce(*NAMES, transactional=True, transactional_id="pay")
        answer = await asking.ask("alice", "Produce", 7, value)
        assert len(codes(answer)) == 1
        assert [each.name for each in asking.rules.asked] == ["pay"]


async def test_produce_yields_to_the_event_loop_after_each_unknown_topic(tmp_path: Path) -> None:
    async with guarded_broker(tmp_path, "alice: WRITE TOPIC hidden-*") as asking:
        asking.broker.slicer.slice_ns = -1
        turns = counted(asking.broker.slicer, "turn")
        answer = await asking.ask("alice", "Produce", 7, produce(*NAMES))
        assert codes(answer) == {UNKNOWN_TOPIC_OR_PARTITION}
        assert len(turns) >= MANY


async def test_offset_fetch_yields_to_the_event_loop_after_each_denied_topic(
    tmp_path: Path,
) -> None:
    async with guarded_broker(
        tmp_path, f"alice: READ GROUP {GROUP}", "alice: READ TOPIC orders"
    ) as asking:
        asking.broker.slicer.slice_ns = -1
        topics = [{"name": name, "partition_indexes": [0]} for name in ("orders", *NAMES)]
        value = {"group_id": GROUP, "topics": topics}
        before = await pauses_of(asking, "alice", "OffsetFetch", 5, value)
        assert before > MANY
        fetched = (await asking.ask("alice", "OffsetFetch", 5, value))["topics"]
        assert [each["name"] for each in fetched] == ["orders", *NAMES]


async def test_offset_fetch_of_all_topics_yields_to_the_event_loop_after_each_denied_topic(
    tmp_path: Path,
) -> None:
    names = tuple(f"{number:03}-{'x' * 60}" for number in range(100))
    async with guarded_broker(
        tmp_path, f"alice: READ GROUP {GROUP}", "alice: READ TOPIC 007-*", topics=names
    ) as asking:
        asking.broker.slicer.slice_ns = -1
        turns = counted(asking.broker.slicer, "turn")
        answer = await asking.ask("alice", "OffsetFetch", 5, {"group_id": GROUP, "topics": None})
        assert by_name(answer) == {names[7]: {NONE}}
        assert len(turns) >= len(names)


async def test_connection_does_not_cache_allowed_names_above_the_maximum_length(
    tmp_path: Path,
) -> None:
    async with guarded_broker(tmp_path, "alice: READ GROUP *") as asking:

        def beat(wire: Wire) -> None:
            for size in (NAME_KEPT_MAX, NAME_KEPT_MAX + 1):
                value = {"group_id": "g" * size, "generation_id": 1, "member_id": "m"}
                wire.call("Heartbeat", 3, value)
            (mine,) = [
                each.authorization_cache
                for each in asking.broker.server.connections
                if each.authorization_cache
            ]
            kept = [name for names in mine.names.values() for name in names]
            assert kept == ["g" * NAME_KEPT_MAX]

        await asking.talk("alice", beat)
