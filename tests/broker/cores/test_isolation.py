"""Tests that a failing report does not affect the work, and that an exception affects only the
shard, request or part in which it occurs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
from structlog.testing import capture_logs

import coordinator.classic.group
from broker.broker import Broker
from broker.cores import shard_lifecycle as life
from broker.cores.hosted_shard import Phase
from broker.net.connection import Connection
from broker.topics.registry import OFFSETS_TOPIC
from coordinator import shard as core
from coordinator.calls import OffsetCommit, TopicOffsets
from coordinator.classic.group import Group
from coordinator.outcome import CommitReply
from protocol.errors import (
    COORDINATOR_LOAD_IN_PROGRESS,
    NONE,
    NOT_COORDINATOR,
    UNKNOWN_SERVER_ERROR,
)
from protocol.messages.describe_groups import API as DESCRIBE_GROUPS
from tests.broker.cores.test_runtime import HERE, THERE, FullDisk, hosted_of
from tests.broker.edge import Client, EdgeBroker, Taker, eventually
from tests.broker.mock_time import MockTime
from tests.broker.serving import asked, serving


class Bug(Exception):
    pass


@pytest.fixture(autouse=True)
def lines() -> Iterator[list[Any]]:
    structlog.reset_defaults()
    with capture_logs() as lines:
        yield lines


def fails(*_: object, **__: object) -> Any:
    raise Bug


def logged_places(lines: list[Any]) -> list[str]:
    """Returns the values of the field ``place`` in the log lines of internal errors."""
    return [line["place"] for line in lines if line["event"] == "internal error"]


async def test_exception_in_an_event_report_does_not_affect_replies(
    tmp_path: Path, lines: list[Any]
) -> None:
    async with EdgeBroker(tmp_path) as broker:
        await broker.ensure_offsets_topic()
        seen: list[str] = []
        reports = broker.groups.life.observer.reports
        reports += [fails, lambda event, _: seen.append(type(event).__name__)]
        client = await broker.client()

        member_id, generation_id = await client.join_alone(HERE)
        who = {"member_id": member_id, "generation_id": generation_id}
        assert await client.commit(HERE, 7, **who) == NONE
        assert await client.commit(HERE, 3, **who) == NONE, "moved back: that is told too"

        assert await client.fetch(HERE) == 3
        assert broker.logs[hosted_of(broker, HERE).index].log_end_offset == 3, "all is recorded"
        assert seen[0] == "MemberJoined"
        assert seen[-1] == "OffsetsMovedBack"
        assert broker.groups.errors.counts["observer"] == len(seen)
        assert len(logged_places(lines)) < len(seen), (
            "what happens again and again is told less often"
        )


async def test_events_are_reported_after_the_replies_of_the_turn_are_queued(
    tmp_path: Path,
) -> None:
    async with EdgeBroker(tmp_path) as broker:
        await broker.ensure_offsets_topic()
        hosted = hosted_of(broker, HERE)
        client = await broker.client()
        assert await client.commit(HERE, 7) == NONE
        seen: list[tuple[int, int]] = []
        broker.groups.life.observer.reports.append(
            lambda *_: seen.append((hosted.accepted, hosted.partition.waiting))
        )

        assert await client.commit(HERE, 3) == NONE
        assert seen == [(2, 1)]


async def test_exception_in_a_reply_does_not_affect_other_replies_of_the_turn(
    tmp_path: Path,
) -> None:
    async with EdgeBroker(tmp_path) as broker:
        await broker.ensure_offsets_topic()
        client = await broker.client()
        replies: list[CommitReply] = []
        taking, failing = Taker(replies.append), Taker(fails)
        for ticket in (failing, taking, failing, taking):
            for group in (HERE, THERE):
                run = [TopicOffsets("orders", (0,), (5,), (-1,), None, None)]
                broker.groups.submit(group, OffsetCommit(ticket, group, -1, "", None, -1, run))

        assert await client.commit(HERE, 6) == NONE
        assert await client.fetch(THERE) == 5
        assert len(replies) == 4
        assert broker.groups.errors.counts["reply"] == 4


@pytest.mark.parametrize(
    ("where", "bug"), [(Group, "next_generation"), (coordinator.classic.group, "vote")]
)
async def test_exception_in_a_core_fails_waiting_requests_and_reloads_the_shard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: list[Any], where: Any, bug: str
) -> None:
    async with EdgeBroker(tmp_path) as broker:
        await broker.ensure_offsets_topic()
        one, other = await broker.client(), await broker.client()
        assert await one.commit("plain", 5) == await one.commit(HERE, 6) == NONE
        member_id, _ = await one.join_alone(HERE)
        again = other.send_join(HERE)
        await eventually(hosted_of(broker, HERE).core.view.parked)
        monkeypatch.setattr(where, bug, fails)

        last = one.send_join(HERE, member_id=member_id)
        codes = [
            (await each.receive(to))["error_code"] for each, to in ((one, last), (other, again))
        ]

        assert all(code in (NOT_COORDINATOR, UNKNOWN_SERVER_ERROR) for code in codes), codes
        monkeypatch.undo()
        await eventually(lambda: hosted_of(broker, HERE).phase is Phase.ACTIVE)
        assert await one.fetch(HERE) == 6
        assert await one.fetch("plain") == 5
        joined = await other.receive(other.send_join("another"))
        assert joined["error_code"] == NONE
        assert logged_places(lines) == ["shard"]


async def test_records_that_a_core_accepted_before_its_exception_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with EdgeBroker(tmp_path, partitions=1) as broker:
        await broker.ensure_offsets_topic()
        one, other = await broker.client(), await broker.client()
        await one.fetch(HERE)
        hosted = hosted_of(broker, HERE)
        handle = hosted.core.handle

        class Broken:
            """A core that raises an exception on a call for group THERE."""

            def __getattr__(self, name: str) -> Any:
                return getattr(real, name)

            def handle(self, call: Any, now: Any) -> Any:
                return fails() if call.group_id == THERE else handle(call, now)

        real, hosted.core = hosted.core, Broken()  # type: ignore[assignment]
        kept = one.send_commit(HERE, 5)
        lost = one.send_commit(THERE, 6)
        assert (await one.receive(kept))["topics"][0]["partitions"][0]["error_code"] == NONE
        refused = (await one.receive(lost))["topics"][0]["partitions"][0]["error_code"]
        assert refused == UNKNOWN_SERVER_ERROR
        await eventually(lambda: hosted.phase is Phase.ACTIVE)
        assert (await other.fetch(HERE), await other.fetch(THERE)) == (5, -1)


async def test_exception_in_a_read_request_fails_only_this_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with EdgeBroker(tmp_path) as broker:
        await broker.ensure_offsets_topic()
        client = await broker.client()
        member_id, generation_id = await client.join_alone(HERE)
        shard = hosted_of(broker, HERE).core
        monkeypatch.setattr(Group, "awaited", fails)
        monkeypatch.setitem(core._HANDLERS, core.DescribeGroup, fails)

        described = await client.call(DESCRIBE_GROUPS.key, 1, groups=[HERE])
        assert described["groups"][0]["error_code"] == UNKNOWN_SERVER_ERROR
        assert hosted_of(broker, HERE).core is shard, "it goes on as it is"
        assert await client.heartbeat(HERE, member_id, generation_id) == NONE


async def test_shard_waits_before_it_loads_again_when_its_timers_raise_exceptions_repeatedly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    time = MockTime()
    async with EdgeBroker(tmp_path, time=time) as broker:
        await broker.ensure_offsets_topic()
        client = await broker.client()
        await client.join_alone(HERE, session_timeout_ms=10_000)
        member_id, generation_id = await client.join_alone(THERE, session_timeout_ms=25_000)
        hosted = hosted_of(broker, HERE)
        monkeypatch.setattr(core, "session_due", fails)

        time.move(11_000)
        broker.groups.tick()
        await eventually(lambda: hosted.phase is Phase.ACTIVE)
        assert hosted.breakdowns == 1
        assert await client.heartbeat(THERE, member_id, generation_id) == NONE

        time.move(11_000)
        broker.groups.tick()
        assert hosted.breakdowns == 2
        assert await client.commit(HERE, 5) == COORDINATOR_LOAD_IN_PROGRESS, "it waits a second"
        assert await client.heartbeat(THERE, member_id, generation_id) == NONE
        assert await client.commit(THERE, 5, member_id=member_id, generation_id=generation_id) == 0
        monkeypatch.undo()
        await eventually(lambda: hosted.phase is Phase.ACTIVE)
        assert await client.commit("plain", 5) == NONE


async def test_failed_write_to_a_connection_closes_only_this_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with EdgeBroker(tmp_path, partitions=1) as broker:
        await broker.ensure_offsets_topic()
        one, other = await broker.client(), await broker.client()
        await one.fetch(HERE)
        (first,) = [each for each in broker.server.connections if each.requests]
        await other.fetch(HERE)
        flush = Connection.flush
        monkeypatch.setattr(
            Connection, "flush", lambda each: fails() if each is first else flush(each)
        )

        one.send_commit(HERE, 5)
        kept = other.send_commit(HERE, 6)

        reply = await other.receive(kept)
        assert reply["topics"][0]["partitions"][0]["error_code"] == NONE
        assert await one.closed_by_peer()
        assert await other.commit(HERE, 7) == NONE, "writes are not held back afterwards"


async def test_failed_fsync_stops_the_broker_when_logging_fails_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = FullDisk()
    async with serving(
        tmp_path, {"log.flush.interval.messages": "1", "offsets.topic.num.partitions": "1"}, disk
    ) as broker:
        assert await broker.topics.ensure(OFFSETS_TOPIC)
        await asked(broker, lambda wire: wire.call("FindCoordinator", 1, {"key": HERE}))
        client = await Client.connect(broker.sockets.addresses()[0][1])

        class Mute:
            def __getattr__(self, name: str) -> Callable[..., None]:
                return fails

        monkeypatch.setattr(life, "logger", Mute())
        monkeypatch.setattr("broker.topics.partition.logger", Mute())
        disk.broken = True
        client.send_commit(HERE, 5, topic="__consumer_offsets")
        await asyncio.wait_for(broker.stopped.wait(), 30)
        monkeypatch.undo()
        assert broker.fatal is not None
        assert "can no longer be written safely" in broker.fatal


async def test_failing_callback_of_a_topic_deletion_does_not_stop_later_callbacks(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path) as broker:
        gone: list[str] = []
        broker.topics.on_deleted[:0] = [fails]
        broker.topics.on_deleted.append(lambda topic: gone.append(topic.name))
        await _topic(broker, "CreateTopics", 2, "t")
        answer = await _topic(broker, "DeleteTopics", 1, "t")
        assert answer["responses"][0]["error_code"] == NONE
        assert gone == ["t"]
        assert broker.internal_errors.counts["topic_gone"] == 1


async def test_broker_stop_closes_all_logs_when_its_parts_raise_exceptions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(tmp_path) as broker:
        await _topic(broker, "CreateTopics", 2, "t")
        for part in (broker.maintenance, broker.lags.times, broker.groups, broker.worker):
            monkeypatch.setattr(part, "stop", fails)
    assert broker.internal_errors.counts["stop"] == 4
    assert (tmp_path / ".kafka_cleanshutdown").exists(), "its logs were closed in order"
    async with serving(tmp_path) as again:
        assert "t" in again.registry.topics, "and the directory was given up"


async def _topic(broker: Broker, api: str, version: int, name: str) -> dict[str, Any]:
    made = {"topics": [{"name": name, "num_partitions": 1, "replication_factor": 1}]}
    value = {**(made if api == "CreateTopics" else {"topic_names": [name]}), "timeout_ms": 9000}
    return await asked(broker, lambda wire: wire.call(api, version, value))
