"""A whole broker on a disk that becomes full or that loses unflushed data in a power loss."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from structlog.testing import capture_logs

from broker.topics import partition
from broker.topics.registry import OFFSETS_TOPIC
from protocol.errors import (
    COORDINATOR_LOAD_IN_PROGRESS,
    COORDINATOR_NOT_AVAILABLE,
    NONE,
    NOT_COORDINATOR,
)
from tests.broker.serving import asked, serving
from tests.broker.topic_calls import create_topic, fetch, produce
from tests.simulated_files import SimulatedFiles
from tests.waiting import until
from tests.wire import Wire, batch, values_of

pytestmark = pytest.mark.proves("faults 8")

SETTINGS = {"offsets.topic.num.partitions": "1", "log.cleaner.enable": "false"}
CHANGES = ("open", "write", "truncate", "fsync", "rename", "remove", "fsync_directory")


def commit(wire: Wire, offset: int) -> int:
    """Commits ``offset`` for the group in partition t-0 and returns the error code."""
    partition = {
        "partition_index": 0,
        "committed_offset": offset,
        "committed_leader_epoch": -1,
        "committed_metadata": "",
    }
    answer = wire.call(
        "OffsetCommit",
        8,
        {
            "group_id": "group",
            "generation_id_or_member_epoch": -1,
            "member_id": "",
            "topics": [{"name": "t", "partitions": [partition]}],
        },
    )
    code: int = answer["topics"][0]["partitions"][0]["error_code"]
    return code


def committed(wire: Wire) -> tuple[int, int]:
    """Waits until the group is loaded. Returns the error code and the committed offset of t-0."""
    answer: dict[str, Any] = {}

    def loading_over() -> int:
        answer.update(wire.call("OffsetFetch", 7, {"group_id": "group", "topics": None}))
        return NONE if answer["error_code"] != COORDINATOR_LOAD_IN_PROGRESS else -1

    until_done(loading_over)
    offsets = [p["committed_offset"] for topic in answer["topics"] for p in topic["partitions"]]
    return answer["error_code"], max(offsets, default=-1)


def until_done(work: Callable[[], int]) -> None:
    """Repeats ``work`` until it returns the error code NONE."""
    until("it is done", lambda: work() == NONE, tolerate=())


async def test_commits_resume_when_a_full_disk_has_space_and_groups_load_at_most_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A test in test_partition_queue.py checks with a mock clock how soon commits resume. This test
    only checks that they resume."""
    # As after many failed probes, which then have their longest interval.
    monkeypatch.setattr(partition, "PROBE_MS_FIRST", partition.PROBE_MS_MAX)
    fs = SimulatedFiles()

    def while_full(wire: Wire) -> None:
        codes = set()
        for offset in range(1000):
            codes.add(commit(wire, 10 + offset))
            if offset % 100 == 99:
                assert values_of(fetch(wire, "t")["records"]) == [b"v"]
                assert committed(wire) == (NONE, 5)
        assert codes <= {
            NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS,
        }  # fmt: skip
        assert produce(wire, "t", batch(b"w" * 200))["error_code"] != NONE

    with capture_logs() as lines:
        async with serving("/data", SETTINGS, fs=fs) as broker:
            await broker.topics.ensure(OFFSETS_TOPIC)
            await asked(broker, lambda wire: (create_topic(wire, "t"), produce(wire, "t")))
            await asked(broker, lambda wire: until_done(lambda: commit(wire, 5)))
            before = sum(line["event"] == "groups loaded" for line in lines)
            fs.capacity_bytes -= fs.room(-20)  # only a part of a batch fits

            await asked(broker, while_full)

            assert not broker.stopped.is_set()
            assert sum(line["event"] == "groups loaded" for line in lines) - before <= 1
            fs.capacity_bytes += 1 << 20
            await asked(broker, lambda wire: until_done(lambda: commit(wire, 6)))
            await asked(broker, lambda wire: until_done(lambda: produce(wire, "t")["error_code"]))
            assert await asked(broker, committed) == (NONE, 6)
    async with serving("/data", SETTINGS, fs=fs) as broker:
        assert await asked(broker, committed) == (NONE, 6)


@pytest.mark.parametrize("seed", range(20))
async def test_acknowledged_records_survive_a_power_loss_with_flush_messages_1(
    seed: int,
) -> None:
    chance = random.Random(seed)
    fs = SimulatedFiles()
    settings = {**SETTINGS, "log.flush.interval.messages": "1", "log.segment.bytes": "2000"}
    produced: list[bytes] = []
    offset = 0

    def work(wire: Wire) -> None:
        """Produces and commits until the disk fails as in a power loss."""
        nonlocal offset
        left = chance.randint(20, 60)
        with suppress(ConnectionError):
            while True:
                left -= 1
                if not left:
                    for operation in CHANGES:
                        fs.fail(operation, "", count=1 << 30)
                value = b"%d" % len(produced) + bytes(chance.randint(0, 200))
                if produce(wire, "t", batch(value))["error_code"] != NONE:
                    return
                produced.append(value)
                if commit(wire, len(produced)) != NONE:
                    return
                offset = len(produced)

    async with serving("/data", settings, fs=fs) as broker:
        await broker.topics.ensure(OFFSETS_TOPIC)
        await asked(broker, lambda wire: create_topic(wire, "t"))
        await asked(broker, lambda wire: until_done(lambda: commit(wire, 0)))
        await asked(broker, work)
        assert broker.stopped.is_set()
        assert broker.fatal is not None
    fs.heal()
    fs.lose_power(chance)

    def read(wire: Wire) -> None:
        found: list[bytes | None] = []
        while values := values_of(fetch(wire, "t", len(found))["records"]):
            found += values
        assert found[: len(produced)] == produced, f"seed {seed}"
        assert committed(wire)[1] in (offset, offset + 1), f"seed {seed}"

    async with serving("/data", settings, fs=fs) as broker:
        await asked(broker, read)
