"""Expiry in a whole broker. All timeouts within an advance of the clock expire in order before the
advance returns."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from broker.broker import Broker
from broker.test_mode.clock.mock_time import MockTime
from coordinator.events import MemberLeft, Transition
from protocol.messages.create_topics import API as CREATE_TOPICS
from protocol.messages.fetch import API as FETCH
from protocol.messages.find_coordinator import API as FIND_COORDINATOR
from protocol.messages.init_producer_id import API as INIT_PRODUCER_ID
from protocol.messages.list_offsets import API as LIST_OFFSETS
from protocol.messages.metadata import API as METADATA
from protocol.messages.produce import API as PRODUCE
from protocol.records.batch import encode_batch, records_of
from protocol.records.section import Record
from protocol.records.stored import iter_stored
from tests.broker.edge import Client
from tests.broker.serving import eventually, serving
from tests.broker.topic_calls import fetch_request, produce_request, topic

SECOND, MINUTE, HOUR, DAY = 1_000, 60_000, 3_600_000, 86_400_000
UNKNOWN_MEMBER_ID, OFFSET_OUT_OF_RANGE = 25, 1


class Scene:
    """A broker with a mock clock, and one client."""

    def __init__(self, broker: Broker, time: MockTime, client: Client) -> None:
        self.broker = broker
        self.time = time
        self.client = client
        self.start_ms = time.now().mono_ms
        self.events: list[tuple[int, Any]] = []
        """The events of the broker as pairs: the time in ms since the start, and the event."""
        broker.groups.life.observer.reports.append(
            lambda event, _: self.events.append((time.now().mono_ms - self.start_ms, event))
        )

    async def advance(self, *, days: int = 0, hours: int = 0, minutes: int = 0, s: int = 0) -> int:
        """Advances the clock and returns the number of timers that fired."""
        return await self.time.advance(days * DAY + hours * HOUR + minutes * MINUTE + s * SECOND)

    def left(self) -> list[tuple[int, str]]:
        """Returns an entry for each member that left: the time in ms since the start, and the group
        id."""
        return [(at, each.group_id) for at, each in self.events if isinstance(each, MemberLeft)]

    async def topic(self, name: str, **configs: object) -> None:
        settings = {key.replace("_", "."): str(value) for key, value in configs.items()}
        made = await self.client.call(
            CREATE_TOPICS.key, 5, topics=[topic(name, 1, settings)], timeout_ms=10_000
        )
        assert made["topics"][0]["error_code"] == 0, made

    async def produce(self, name: str, *records: tuple[bytes | None, bytes | None]) -> None:
        """Produces one batch whose timestamps are the time of the broker's clock."""
        now_ms = self.time.now().wall_ms
        batch = encode_batch(
            [Record(index, now_ms, *record) for index, record in enumerate(records)], base_offset=0
        )
        done = await self.client.call(PRODUCE.key, 9, **produce_request(name, batch))
        assert done["responses"][0]["partition_responses"][0]["error_code"] == 0, done

    async def earliest(self, name: str) -> int:
        wanted = [{"name": name, "partitions": [{"partition_index": 0, "timestamp": -2}]}]
        found = await self.client.call(
            LIST_OFFSETS.key, 5, replica_id=-1, isolation_level=0, topics=wanted
        )
        offset: int = found["topics"][0]["partitions"][0]["offset"]
        return offset

    async def fetched(self, name: str, offset: int = 0) -> dict[str, Any]:
        answer = await self.client.call(FETCH.key, 11, **fetch_request(name, offset))
        entry: dict[str, Any] = answer["responses"][0]["partitions"][0]
        return entry

    async def pairs(self, name: str) -> list[tuple[bytes | None, bytes | None]]:
        data = (await self.fetched(name))["records"] or b""
        return [
            (record.key, record.value)
            for header, _ in iter_stored(data, partial=True)
            for record in records_of(data, header)
        ]

    async def coordinator(self) -> None:
        """Waits until the group coordinator has loaded its groups."""
        while True:
            found = await self.client.call(FIND_COORDINATOR.key, 2, key="g", key_type=0)
            if found["error_code"] == 0:
                break
        await eventually("the groups are loaded", lambda: not self.broker.groups.life.loading)
        await self.client.call(
            METADATA.key,
            9,
            topics=[{"name": "orders"}],
            allow_auto_topic_creation=True,
        )


@asynccontextmanager
async def scene(
    directory: Path, settings: Mapping[str, str] | None = None, *, is_frozen: bool = True
) -> AsyncIterator[Scene]:
    time = MockTime()
    sets = {"offsets.topic.num.partitions": "3", **(settings or {})}
    async with serving(directory, sets, time=time) as broker:
        client = await Client.connect(broker.sockets.addresses()[0][1])
        made = Scene(broker, time, client)
        await made.coordinator()
        if is_frozen:
            time.freeze()
        made.start_ms = time.now().mono_ms
        yield made
        client.close()


async def test_sessions_expire_in_order_during_an_advance(tmp_path: Path) -> None:
    async with scene(tmp_path) as here:
        for group, session_s in (("a", 30), ("b", 10), ("c", 60), ("d", 20)):
            await here.client.join_alone(group, session_timeout_ms=session_s * SECOND)
        await here.advance(s=9)
        assert here.left() == []
        assert await here.advance(s=51) >= 4

        assert [group for _, group in here.left()] == ["b", "d", "a", "c"]
        for (at_ms, _), session_ms in zip(
            here.left(), (10_000, 20_000, 30_000, 60_000), strict=True
        ):
            assert session_ms <= at_ms <= session_ms + 1
        states = [each for _, each in here.events if isinstance(each, Transition)]
        assert [each.group_id for each in states if each.new_state == "Empty"] == list("bdac")
        assert here.broker.pause_detector.pauses == 0, "a move is no pause of the broker"


async def test_rebalance_timeout_removes_a_member_that_does_not_rejoin(
    tmp_path: Path,
) -> None:
    async with scene(tmp_path) as here:
        one = here.client
        member, generation = await one.join_alone("g", session_timeout_ms=600 * SECOND)
        other = await Client.connect(here.broker.sockets.addresses()[0][1])
        joining = other.send_join("g", session_timeout_ms=20 * SECOND)
        await eventually(
            "the group rebalances",
            lambda: any(
                isinstance(each, Transition) and each.new_state == "PreparingRebalance"
                for _, each in here.events
            ),
        )
        assert await one.heartbeat("g", member, generation) == 27, "REBALANCE_IN_PROGRESS"
        await here.advance(s=29)
        assert not here.left()
        await here.advance(s=2)

        joined = await other.receive(joining)
        assert joined["error_code"] == 0
        assert [each["member_id"] for each in joined["members"]] == [joined["member_id"]]
        assert here.left() == [(pytest.approx(30_000, abs=2), "g")]
        assert await one.heartbeat("g", member, generation) == UNKNOWN_MEMBER_ID
        await here.advance(s=21)
        assert [at for at, _ in here.left()][1:] == [pytest.approx(50_000, abs=1_100)]
        other.close()


async def test_offsets_expire_a_week_after_the_group_became_empty(
    tmp_path: Path,
) -> None:
    async with scene(tmp_path) as here:
        member, generation = await here.client.join_alone("g", session_timeout_ms=10 * SECOND)
        assert await here.client.commit("g", 5, member_id=member, generation_id=generation) == 0
        assert await here.client.commit("alone", 7) == 0
        fired = await here.advance(days=7)
        assert await here.client.fetch("g") == 5, "it was empty for ten seconds less"
        await here.advance(minutes=11)

        assert await here.client.fetch("g") == -1
        assert await here.client.fetch("alone") == -1
        assert fired < 10_000


async def test_retention_removes_segments_and_deletes_their_files_after_the_delete_delay(
    tmp_path: Path,
) -> None:
    async with scene(tmp_path) as here:
        await here.topic("hour", retention_ms=HOUR)
        await here.topic("day", retention_ms=DAY)
        await here.topic("ever", retention_ms=-1)
        for name in ("hour", "day", "ever"):
            await here.produce(name, (None, b"old"))
        await here.advance(minutes=55)
        await here.produce("hour", (None, b"new"))
        await here.advance(minutes=59)
        assert await here.earliest("hour") == 0, "its newest record is younger than an hour"
        await here.advance(minutes=7)

        assert await here.earliest("hour") == 2
        assert (await here.fetched("hour"))["error_code"] == OFFSET_OUT_OF_RANGE
        assert await here.earliest("day") == 0
        await here.advance(days=1)
        assert await here.earliest("day") == 1
        assert await here.earliest("ever") == 0
        await here.advance(minutes=10)
        deleted = list(tmp_path.rglob("*.deleted"))
        assert deleted == []
        assert here.broker.maintenance.retention_runs < 10, "what finds nothing is left out"


async def test_log_is_cleaned_after_max_compaction_lag(
    tmp_path: Path,
) -> None:
    async with scene(tmp_path) as here:
        await here.topic(
            "states", cleanup_policy="compact", min_compaction_lag_ms=DAY,
            max_compaction_lag_ms=2 * DAY, min_cleanable_dirty_ratio=0.0,
        )  # fmt: skip
        for value in (b"1", b"2", b"3"):
            await here.produce("states", (b"key", value))
        await here.advance(days=1, hours=23)
        assert [value for _, value in await here.pairs("states")] == [b"1", b"2", b"3"]
        await here.advance(hours=2)

        assert await here.pairs("states") == [(b"key", b"3")]
        assert here.broker.cleaning.runs == 1


async def test_tombstones_are_removed_after_delete_retention(tmp_path: Path) -> None:
    async with scene(tmp_path) as here:
        await here.topic(
            "states", cleanup_policy="compact", delete_retention_ms=DAY,
            max_compaction_lag_ms=HOUR, min_cleanable_dirty_ratio=0.0,
        )  # fmt: skip
        await here.produce("states", (b"gone", b"1"))
        await here.produce("states", (b"gone", None))
        await here.advance(hours=2)
        assert await here.pairs("states") == [(b"gone", None)]
        await here.advance(days=1)
        await here.produce("states", (b"other", b"2"))
        await here.advance(hours=2)

        assert await here.pairs("states") == [(b"other", b"2")]


async def test_open_transaction_is_aborted_after_its_timeout(tmp_path: Path) -> None:
    async with scene(tmp_path, {"transaction.state.log.num.partitions": "1"}) as here:
        await here.topic("orders2")
        got = {"error_code": -1}
        while got["error_code"]:
            await here.client.call(FIND_COORDINATOR.key, 2, key="t", key_type=1)
            got = await here.client.call(
                INIT_PRODUCER_ID.key, 2, transactional_id="t", transaction_timeout_ms=30 * SECOND
            )
        added = await here.client.call(
            24,
            1,
            v3_and_below_transactional_id="t",
            v3_and_below_producer_id=got["producer_id"],
            v3_and_below_producer_epoch=got["producer_epoch"],
            v3_and_below_topics=[{"name": "orders2", "partitions": [0]}],
        )
        assert added["results_by_topic_v3_and_below"][0]["results_by_partition"][0][
            "partition_error_code"
        ] == 0  # fmt: skip
        batch = encode_batch(
            [Record(0, here.time.now().wall_ms, None, b"open")],
            base_offset=0,
            producer_id=got["producer_id"],
            producer_epoch=got["producer_epoch"],
            base_sequence=0,
            is_transactional=True,
        )
        request = produce_request("orders2", batch, transactional_id="t")
        done = await here.client.call(PRODUCE.key, 9, **request)
        assert done["responses"][0]["partition_responses"][0]["error_code"] == 0
        partition = here.broker.logs.topics["orders2"].partitions[0]
        assert partition.last_stable_offset == 0
        await here.advance(s=45)

        assert partition.last_stable_offset == 2, "the record and its marker"


async def test_sessions_expire_only_while_the_clock_runs(tmp_path: Path) -> None:
    """Two brokers have the same settings. Sessions expire on the broker with the running clock, but
    not on the one with the frozen clock."""
    settings = {"group.min.session.timeout.ms": "1000"}
    async with (
        scene(tmp_path / "frozen", settings) as here,
        scene(tmp_path / "running", settings, is_frozen=False) as there,
    ):
        member, generation = await here.client.join_alone("g", session_timeout_ms=1000)
        for number in range(3):
            await there.client.join_alone(f"g{number}", session_timeout_ms=1000 + 200 * number)
        await eventually("all sessions there have ended", lambda: len(there.left()) == 3)

        assert here.left() == []
        assert await here.client.heartbeat("g", member, generation) == 0
        here.time.run()
        await eventually("it has ended here too", here.left)


async def test_clients_are_served_under_a_frozen_clock(tmp_path: Path) -> None:
    async with scene(tmp_path, {"offsets.topic.num.partitions": "1"}) as here:
        await here.produce("orders", (None, b"one"))
        waiting = await Client.connect(here.broker.sockets.addresses()[0][1])
        empty = waiting.send(FETCH.key, 11, **fetch_request("orders", 1, max_wait_ms=50))
        answer = await waiting.receive(empty)
        assert answer["responses"][0]["partitions"][0]["records"] == b""
        parked = waiting.send(FETCH.key, 11, **fetch_request("orders", 1, max_wait_ms=60_000))
        await eventually("it waits", lambda: len(here.broker.long_polls) == 1)
        await here.produce("orders", (None, b"two"))
        answer = await waiting.receive(parked)
        assert answer["responses"][0]["partitions"][0]["records"]
        member, generation = await waiting.join_alone("g")
        for offset in range(3):
            ours = {"member_id": member, "generation_id": generation}
            assert await waiting.commit("g", offset, **ours) == 0
            assert await waiting.heartbeat("g", member, generation) == 0
        waiting.close()


async def test_advance_of_the_clock_does_not_end_a_long_poll(tmp_path: Path) -> None:
    async with scene(tmp_path) as here:
        waiting = await Client.connect(here.broker.sockets.addresses()[0][1])
        parked = waiting.send(FETCH.key, 11, **fetch_request("orders", 0, max_wait_ms=60_000))
        await eventually("it waits", lambda: len(here.broker.long_polls) == 1)
        await here.advance(hours=1)
        assert len(here.broker.long_polls) == 1
        await here.produce("orders", (None, b"one"))
        assert (await waiting.receive(parked))["responses"]
        waiting.close()


async def test_setting_the_wall_clock_back_does_not_expire_a_session(tmp_path: Path) -> None:
    async with scene(tmp_path) as here:
        member, generation = await here.client.join_alone("g", session_timeout_ms=60 * SECOND)
        before = here.time.now()
        assert await here.time.set_wall(before.wall_ms - DAY) == 0

        assert await here.client.heartbeat("g", member, generation) == 0
        ours = {"member_id": member, "generation_id": generation}
        assert await here.client.commit("g", 5, **ours) == 0
        await here.advance(s=61)
        assert [group for _, group in here.left()] == ["g"]
        shard = here.broker.groups.hosted_for("g")
        assert shard is not None
        entry = shard.core.view.offsets.get("g", "orders", 0)
        assert entry.commit_timestamp_ms == before.wall_ms - DAY


async def test_clock_advance_of_a_week_takes_a_bounded_number_of_steps(tmp_path: Path) -> None:
    async with scene(tmp_path, {"offsets.topic.num.partitions": "1"}) as here:
        for number in range(10):
            await here.client.join_alone(f"g{number}", session_timeout_ms=45 * SECOND)
            assert await here.client.commit(f"s{number}", 5) == 0
        fired = await here.advance(days=7)
        assert fired < 7 * 24 * 6 + 100, "the checks of offsets, each ten minutes, and little more"
        assert len(here.left()) == 10
        assert await here.client.fetch("s1") == 5
        await here.advance(minutes=11)
        assert await here.client.fetch("s1") == -1


async def test_broker_under_a_frozen_clock_stops_without_remaining_tasks_and_timers(
    tmp_path: Path,
) -> None:
    before = asyncio.all_tasks()
    async with scene(tmp_path) as here:
        await here.client.join_alone("g")
        await here.topic("short")
        await here.produce("short", (None, b"one"))
        await here.advance(minutes=1)
        time = here.time
    await eventually("its tasks have ended", lambda: asyncio.all_tasks() <= before)
    time.reset()
    assert (len(time._timers), len(time._pauses), len(time._sleepers)) == (0, 0, 0)
    assert not time.is_frozen
