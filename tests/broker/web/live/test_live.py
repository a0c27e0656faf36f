"""The event stream `/api/live`, and other HTTP paths that the web page uses."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from broker.loop.slices import Slicer
from broker.time import Time
from broker.web import http
from broker.web.live import events as live
from broker.web.live import rows as live_rows
from broker.web.live.events import Channel, Client, Row, Source
from broker.web.views.search_names import search_names
from protocol.messages.find_coordinator import API as FIND_COORDINATOR
from protocol.messages.produce import API as PRODUCE
from protocol.records.batch import encode_batch
from protocol.records.section import Record
from tests.broker.openapi import check_event, fields
from tests.broker.partitions import partition_of
from tests.broker.seen import Seen, seeing
from tests.broker.share_calls import REJECT
from tests.broker.share_stories import PAYMENTS, SETTINGS, two_sharers
from tests.broker.web.test_http_api import GROUP, Member
from tests.wire import batch


class Stream:
    """The state that a client has built from the events of `/api/live`. The client merges events as
    the web page does."""

    def __init__(self, lines: AsyncIterator[str], watch: str) -> None:
        self._lines = lines
        self._watch = watch
        self.head: dict[str, Any] = {}
        self.tables: dict[str, dict[str, Any]] = {}
        self.events = 0

    async def next(self) -> None:
        """Receives the next event, and applies it to the head and the tables."""
        async for line in self._lines:
            if line.startswith("data: "):
                break
        event = json.loads(line.removeprefix("data: "))
        check_event(self._watch, event)
        self.events += 1
        if event["reset"]:
            self.tables = {}
        self.head = event["head"]
        for table, key, value in event["rows"]:
            rows = self.tables.setdefault(table, {})
            if value is None:
                del rows[key]
            else:
                rows[key] = value

    async def until(self, what: str, condition: Any) -> None:
        async with asyncio.timeout(60):
            while not condition():
                await self.next()


@asynccontextmanager
async def watching(seen: Seen, what: str) -> AsyncIterator[Stream]:
    address = f"http://{seen.address}/api/live"
    async with (
        httpx.AsyncClient(timeout=20) as client,
        client.stream("GET", address, params={"watch": what}) as answer,
    ):
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "text/event-stream"
        stream = Stream(answer.aiter_lines(), what)
        await stream.next()
        yield stream


async def test_new_group_appears_in_the_stream_with_its_lag(tmp_path: Path) -> None:
    async with seeing(tmp_path) as seen, watching(seen, "groups") as stream:
        assert stream.head == {"loading": False, "unreadable": {}}
        assert stream.tables == {}
        await seen.client.commit("readers", 0)
        await stream.until(
            "the group is there", lambda: "readers" in stream.tables.get("group", {})
        )
        row = stream.tables["group"]["readers"]
        names = {"clients", "hosts", "topics"}
        assert set(row) == fields("GroupSummary") | {"trend", "unread_since_ms"} | names
        assert (row["state"], row["members"], row["lag"]) == ("Empty", 0, 0)


async def test_group_row_of_the_stream_has_clients_hosts_and_topics(tmp_path: Path) -> None:
    async with seeing(tmp_path) as seen, watching(seen, "groups") as stream:

        def names() -> Any:
            row = stream.tables.get("group", {}).get(GROUP, {})
            return [row.get(kind) for kind in ("clients", "hosts", "topics")]

        at = ["127.0.0.1"]
        member = await Member(seen).alone("payments")
        await stream.until("its member", lambda: names() == [["tester"], at, ["payments"]])
        mine = {"member_id": member.member_id, "generation_id": member.generation}
        assert await seen.client.commit(GROUP, 0, **mine) == 0
        both = ["orders", "payments"]
        await stream.until("what it committed", lambda: names() == [["tester"], at, both])
        await member.leave("done")
        await stream.until("nobody", lambda: names() == [[], [], ["orders"]])


def test_search_names_of_a_large_group_are_bounded_in_number_and_length() -> None:
    member = SimpleNamespace(group_instance_id="i" * 500, client_host="/h")
    members = {n: SimpleNamespace(**vars(member), client_id=f"c{n:05}") for n in range(5000)}
    group: Any = SimpleNamespace(members=members, subscribed_topics=None)
    names = search_names(group, [f"t{n}" for n in range(5000)])
    assert {kind: len(found) for kind, found in names.items()} == {
        "clients": 100, "hosts": 1, "topics": 100
    }  # fmt: skip
    assert max(len(name) for found in names.values() for name in found) <= 120


@pytest.mark.campaign
async def test_field_unread_since_ms_in_the_event_stream_changes_when_the_group_commits(
    tmp_path: Path,
) -> None:
    async with seeing(tmp_path) as seen:
        first_ms = seen.time.wall_ms
        for since_ms in (first_ms, first_ms + 1000):
            records = [Record(0, since_ms, None, b"v")]
            partition_of(seen.broker, "orders").append(encode_batch(records), since_ms)
        seen.pass_ms(5000)
        async with watching(seen, "groups") as stream:

            def since() -> Any:
                return stream.tables["group"]["readers"]["unread_since_ms"]

            await seen.client.commit("readers", 0)
            await stream.until("the group", lambda: "readers" in stream.tables.get("group", {}))
            await stream.until("the first record's age", lambda: since() == first_ms)
            await seen.client.commit("readers", 1)
            await stream.until("the second one's", lambda: since() == first_ms + 1000)
            await seen.client.commit("readers", 2)
            await stream.until("all is read", lambda: since() is None)

        await seen.client.commit("readers", 0)
        await seen.scrape()  # The scrape looks up the time of the record.
        async with watching(seen, "groups") as stream:
            assert since() == first_ms, "at the first look already"


async def test_event_stream_of_one_group_contains_the_tables_of_the_group(tmp_path: Path) -> None:
    async with seeing(tmp_path) as seen:
        await seen.client.commit("a/b <c>", 5)
        async with watching(seen, "groups/a/b <c>") as stream:
            assert stream.head["exists"]
            assert stream.head["state"] == "Empty"
            (offset,) = stream.tables["offset"].values()
            assert set(offset) == fields("Offset") - {"lag_seconds"} | {"unread_since_ms"}
            elsewhere = {"findings", "more_findings", "rebalances"}
            assert set(stream.tables["journal"][""]) == fields("Journal") - elsewhere
            assert [each["verdict"] for each in stream.head["findings"]] == ["OUT_OF_RANGE"]
            assert (stream.head["verdict"], offset["verdict"]) == ("OUT_OF_RANGE", "OUT_OF_RANGE")
            assert offset["lag"] == -5
            await seen.client.commit("a/b <c>", 9)
            key = f"{offset['topic']}-{offset['partition']}"
            await stream.until("9", lambda: stream.tables["offset"][key]["offset"] == 9)


async def test_live_updates_of_a_share_group_contain_its_share_partitions(tmp_path: Path) -> None:
    async with seeing(tmp_path, SETTINGS) as seen:
        one, _ = await two_sharers(seen)
        async with watching(seen, f"groups/{PAYMENTS}") as stream:
            assert stream.head["share"]["delivery_count_limit"] == 5
            assert set(stream.tables["share"]) == {"orders-0", "orders-1", "orders-2"}
            assert await one.fetch(2) == [(0, 1, 1)]
            rows = stream.tables["share"]
            await stream.until("a record in hand", lambda: rows["orders-0"]["in_flight"])
            [held] = rows["orders-0"]["in_flight"]
            assert (held["client"], held["last_offset"], held["state"]) == (
                "payments-1",
                1,
                "acquired",
            )
            await one.acknowledge((0, 1, [REJECT]))
            await stream.until("they are archived", lambda: rows["orders-0"]["histories"])
            assert rows["orders-0"]["histories"][0]["archived_because"] == "rejected"


async def test_first_event_of_the_http_stream_of_a_group_has_the_time_of_the_unread_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The lookup may be slow on a busy machine.
    monkeypatch.setattr(live_rows, "LOOKUP_S_MAX", 30.0)
    async with seeing(tmp_path) as seen:
        data = batch(b"first", b"second")
        topic = {"name": "orders", "partition_data": [{"index": 0, "records": data}]}
        await seen.client.call(PRODUCE.key, 9, acks=-1, timeout_ms=1000, topic_data=[topic])
        await seen.client.commit("readers", 1)
        async with watching(seen, "groups/readers") as stream:
            unread = [each for each in stream.tables["offset"].values() if each["partition"] == 0]
            assert [(each["lag"], each["unread_since_ms"] is None) for each in unread] == [
                (1, False)
            ]


@pytest.mark.campaign
async def test_stream_of_an_unknown_group_shows_the_group_when_it_is_created(
    tmp_path: Path,
) -> None:
    async with seeing(tmp_path) as seen, watching(seen, "groups/later") as stream:
        assert not stream.head["exists"]
        await seen.client.commit("later", 1)
        await stream.until("it exists", lambda: stream.head["exists"])


async def test_live_stream_sends_a_new_verdict_when_the_state_of_the_group_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_rows, "JUDGED_EVERY_S", 3600.0)
    async with seeing(tmp_path) as seen:
        await seen.client.commit(GROUP, 5)
        async with watching(seen, f"groups/{GROUP}") as stream:
            assert [each["verdict"] for each in stream.head["findings"]] == ["OUT_OF_RANGE"]
            await seen.client.commit(GROUP, 0)
            await Member(seen).alone()
            await stream.until("it is stable", lambda: stream.head["state"] == "Stable")
            await stream.until("nothing is wrong", lambda: stream.head["findings"] == [])


async def test_stream_shows_the_source_of_each_topic_setting(
    tmp_path: Path,
) -> None:
    async with seeing(tmp_path, {"log.retention.hours": "24"}) as seen:
        await seen.broker.topics.create("short", 1, {"segment.bytes": "1048576"})
        async with watching(seen, "topics/short") as stream:
            rows = stream.tables["setting"]
            known = {name: (rows[name]["value"], rows[name]["source"]) for name in rows}
        told = (await seen.get("/api/topics/short")).json()["settings"]
    assert known["segment.bytes"] == ("1048576", "topic")
    assert known["retention.ms"] == ("86400000", "broker")
    assert known["cleanup.policy"] == ("delete", "default")
    assert {row["name"]: (row["value"], row["source"]) for row in told} == known


async def test_stream_of_cluster_data_is_refused_by_a_standalone_broker(tmp_path: Path) -> None:
    async with seeing(tmp_path) as seen:
        answer = await seen.get("/api/live?watch=cluster")
    assert answer.status_code == 404
    assert "this broker is standalone" in answer.json()["error"]


async def test_live_stream_of_a_topic_has_its_partitions_settings_and_groups(
    tmp_path: Path,
) -> None:
    async with seeing(tmp_path) as seen:
        await seen.client.commit("readers", 0)
        async with watching(seen, "topics") as stream:
            assert set(stream.tables["topic"]["orders"]) == fields("Topic")
            assert stream.tables["topic"]["__consumer_offsets"]["internal"]
        async with watching(seen, "topics/orders") as stream:
            assert stream.head["exists"]
            assert set(stream.tables["partition"]["0"]) == fields("Partition")
            assert set(stream.tables["setting"]["retention.ms"]) == fields("Setting")
            assert stream.tables["group"]["readers"]["partitions"] == 1
            assert set(stream.tables["group"]["readers"]) == fields("TopicReader")
        one = (await seen.get("/api/topics/orders")).json()
        assert set(one) == fields("Topic") | {"partition_list", "groups", "settings"}
        assert one["groups"][0]["group"] == "readers"
        listed = (await seen.get("/api/topics")).json()["topics"]
        assert "orders" in [each["topic"] for each in listed]
        assert (await seen.get("/api/topics/nothing")).status_code == 404


async def test_broker_response_and_stream_have_the_documented_fields(
    tmp_path: Path,
) -> None:
    async with seeing(tmp_path) as seen:
        await seen.client.commit("readers", 0)
        await seen.broker.trends.sample()
        await seen.broker.trends.sample()
        share_group = {"key_type": 2, "coordinator_keys": ["shared"]}
        await seen.client.call(FIND_COORDINATOR.key, 4, **share_group)
        told = (await seen.get("/api/broker")).json()
        async with watching(seen, "broker") as stream:
            assert set(stream.head) | {"apis", "unsupported"} == set(told) == fields("Broker")
    assert told["commits"] == 1
    assert told["groups"] == 1
    assert set(told["trends"]) == fields("Trends")
    assert all(told["trends"].values())
    (unsupported,) = told["unsupported"]
    assert set(unsupported) == fields("Unsupported")
    assert [set(each) for each in told["apis"]] == [fields("ApiRequests")] * len(told["apis"])
    assert "OffsetCommit" in [each["api"] for each in told["apis"]]


@pytest.mark.parametrize("what", ["", "nobody", "broker/1/2"])
async def test_live_stream_of_an_unknown_watch_value_is_refused(tmp_path: Path, what: str) -> None:
    async with seeing(tmp_path) as seen:
        answer = await seen.get(f"/api/live?watch={what}")
        assert (answer.status_code, list(answer.json())) == (404, ["error"])


async def test_number_of_stream_clients_is_bounded_and_unused_channels_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "CLIENTS_MAX", 2)
    async with seeing(tmp_path) as seen:
        assert (await seen.get("/livez")).status_code == 200
        assert seen.broker.pages is not None
        feed = seen.broker.pages.live
        async with watching(seen, "topics"), watching(seen, "topics"):
            assert list(feed.channels) == [("topics", None)]
            assert (await seen.get("/api/live?watch=groups")).status_code == 503
        async with asyncio.timeout(60):
            while feed.clients:
                await asyncio.sleep(0.01)
        assert feed.channels == {}


async def test_stop_of_the_broker_does_not_wait_for_clients_of_an_event_stream(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "GRACE_S", 60)
    loop = asyncio.get_running_loop()
    async with seeing(tmp_path) as seen:
        async with httpx.AsyncClient() as client:
            url = f"http://{seen.address}/api/live?watch=groups"
            async with client.stream("GET", url) as answer:
                began_s = loop.time()
                await seen.broker.stop()
                assert [line async for line in answer.aiter_lines() if line.startswith("x")] == []
        assert loop.time() - began_s < 30, "it waited for who looks on"


# ------------------------------------------------------------------------------ one channel


class Table(Source):
    """A data source whose rows the test changes. Counts the rows that it has created."""

    def __init__(self, rows: int) -> None:
        self.values = dict.fromkeys(range(rows), 0)
        self.made = 0

    def head(self) -> dict[str, Any]:
        return {"rows": len(self.values)}

    def rows(self) -> Any:
        for key, value in list(self.values.items()):
            yield Row("t", str(key), value, lambda value=value: self._make(value))

    def _make(self, value: int) -> int:
        self.made += 1
        return value


def told(client: Client) -> list[Any]:
    """Returns the rows of the events that are queued for the client."""
    rows = []
    while not client.queue.empty():
        rows += json.loads(client.queue.get_nowait().decode().removeprefix("data: "))["rows"]
    return rows


async def test_stream_channel_encodes_each_changed_row_once_for_all_clients() -> None:
    table = Table(3)
    channel = Channel(table, Time(), Slicer(Time()))
    clients = [Client(), Client()]
    channel.clients.update(clients)
    await channel.look()
    assert [len(told(client)) for client in clients] == [3, 3]
    table.values[1] = 7
    del table.values[2]
    await channel.look()
    assert [told(client) for client in clients] == [[["t", "1", 7], ["t", "2", None]]] * 2
    assert table.made == 4
    await channel.look()
    assert [client.queue.empty() for client in clients] == [True, True]


async def test_live_stream_splits_many_rows_into_several_events() -> None:
    channel = Channel(Table(1234), Time(), Slicer(Time()))
    await channel.look()
    events = [json.loads(event.decode().removeprefix("data: ")) for event in channel.everything()]
    assert [len(event["rows"]) for event in events] == [500, 500, 234]
    assert [event["reset"] for event in events] == [True, False, False]
    assert [event["more"] for event in events] == [True, True, False]


async def test_event_queue_of_a_slow_stream_client_is_bounded() -> None:
    table = Table(1)
    channel = Channel(table, Time(), Slicer(Time()))
    client = Client()
    client.behind = False
    channel.clients.add(client)
    for value in range(live.EVENTS_QUEUED_MAX + 5):
        table.values[0] = value + 1
        await channel.look()
    assert client.behind
    assert client.queue.qsize() == live.EVENTS_QUEUED_MAX


async def test_stream_refresh_of_many_rows_yields_to_the_event_loop() -> None:
    channel = Channel(Table(50), Time(), Slicer(Time(), slice_ns=0))
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    await channel.look()
    task.cancel()
    assert turns >= 50


# ------------------------------------------------------------------------------------ the web page


async def test_web_page_has_a_strict_content_security_policy(tmp_path: Path) -> None:
    async with (
        seeing(tmp_path) as seen,
        httpx.AsyncClient(base_url=f"http://{seen.address}") as client,
    ):
        page = await client.get("/", headers={"accept": "text/html,*/*"})
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        policy = page.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        named = re.findall(r'(?:src|href)="(/page/[^"]+)"', page.text)
        assert len(named) >= 4
        for path in named:
            file = await client.get(path)
            assert file.status_code == 200
            assert file.headers["x-content-type-options"] == "nosniff"
            again = await client.get(path, headers={"if-none-match": file.headers["etag"]})
            assert again.status_code == 304
            plain = await client.get(path, headers={"accept-encoding": "identity"})
            assert (plain.content, "content-encoding" in plain.headers) == (file.content, False)
            assert file.headers["content-encoding"] == "gzip"
            assert {file.headers["vary"], plain.headers["vary"]} == {"Accept-Encoding"}
            assert file.headers["etag"] != plain.headers["etag"]
        assert (await client.get("/page/../broker.py")).status_code == 404
        assert (await client.get("/page/nothing.js")).status_code == 404
        assert "style=" not in page.text
        assert not re.search(r"<script>|\son\w+=", page.text)
