"""Requests with many elements: the broker counts the elements, decodes the request in a thread, and
handles it in slices."""

from __future__ import annotations

import asyncio
import re
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from broker.apis.tables.standalone import SERVED
from broker.net.long_requests import AT_A_TIME
from broker.net.request import Request
from protocol.errors import INVALID_REQUEST
from protocol.headers import encode_request_header
from protocol.messages.describe_groups import API as DESCRIBE_GROUPS
from protocol.messages.find_coordinator import API as FIND_COORDINATOR
from protocol.messages.heartbeat import API as HEARTBEAT
from protocol.messages.leave_group import API as LEAVE_GROUP
from protocol.messages.offset_fetch import API as OFFSET_FETCH
from tests.broker.edge import Client, EdgeBroker, eventually
from tests.broker.said import said

MANY = 15_000
PAGE = Path(__file__).parents[3] / "docs" / "operate" / "limits.md"
NAMES = [f"group-{number}" for number in range(MANY)]


@asynccontextmanager
async def serving(tmp_path: Path) -> AsyncIterator[EdgeBroker]:
    async with EdgeBroker(tmp_path) as broker:
        await broker.ensure_offsets_topic()
        await eventually(lambda: not broker.groups.life.loading)
        yield broker


def describe(client: Client, names: list[str] = NAMES) -> tuple[int, int, int]:
    return client.send(DESCRIBE_GROUPS.key, 5, groups=names, include_authorized_operations=False)


def beat(client: Client) -> tuple[int, int, int]:
    return client.send(HEARTBEAT.key, 4, group_id="g", generation_id=1, member_id="m")


def test_limits_page_lists_the_element_budgets_of_the_apis() -> None:
    rows = re.findall(r"^\| (\w+) \| ([\d,]+|its own) \|", PAGE.read_text(), re.MULTILINE)
    told = {name: None if budget == "its own" else budget for name, budget in rows}
    served = [(row.api.name, row.elements_max) for row in SERVED.values()]
    assert told == {name: None if budget is None else f"{budget:,}" for name, budget in served}


def names_in(reply: dict[str, Any]) -> int:
    return max(len(field) for field in reply.values() if isinstance(field, list))


@pytest.mark.parametrize(
    ("key", "version", "value"),
    [
        (DESCRIBE_GROUPS.key, 5, {"groups": NAMES}),
        (FIND_COORDINATOR.key, 4, {"coordinator_keys": NAMES}),
        (OFFSET_FETCH.key, 8, {"groups": [{"group_id": name, "topics": None} for name in NAMES]}),
        (
            OFFSET_FETCH.key,
            7,
            {
                "group_id": "g",
                "topics": [{"name": name, "partition_indexes": []} for name in NAMES],
            },
        ),
    ],
)
async def test_other_clients_are_served_during_a_large_request(
    tmp_path: Path, key: int, version: int, value: dict[str, Any]
) -> None:
    async with serving(tmp_path) as broker:
        one, other = await broker.client(), await broker.client()
        asking = asyncio.create_task(one.receive(one.send(key, version, **value), within_s=60))
        beats = 0
        while not asking.done():
            await other.receive(beat(other))
            beats += any(not connection.may_park() for connection in broker.server.connections)
        assert names_in(await asking) == MANY
        assert beats > 1, "the heartbeats waited for it"


async def test_later_requests_of_a_client_are_served_after_its_large_request(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path) as broker:
        client = await broker.client()
        many = describe(client)
        beats = [beat(client) for _ in range(3)]
        assert names_in(await client.receive(many, within_s=60)) == MANY
        for asked in beats:
            await client.receive(asked)


async def test_request_with_few_long_elements_is_decoded_in_the_event_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(tmp_path) as broker:
        monkeypatch.setattr(broker.worker, "run", None)
        client = await broker.client()
        reply = await client.receive(describe(client, ["g" * 30_000, "h" * 30_000]))
        assert names_in(reply) == 2


async def test_request_above_its_budget_is_refused_and_logged_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(tmp_path) as broker:
        client = await broker.client()
        with capture_logs() as lines:
            leavers = [{"member_id": ""}] * 100_000
            asked = client.send(LEAVE_GROUP.key, 4, group_id="g", members=leavers)
            reply = await client.receive(asked)
        assert reply["error_code"] == INVALID_REQUEST
        [line] = said(lines)
        assert line["api"] == "LeaveGroup"
        assert line["elements_max"] == 5_000
        assert "more than 5000 elements" in line["reason"]
        await client.receive(beat(client))


async def test_request_above_its_budget_closes_connection_if_its_response_has_no_top_level_error(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path) as broker:
        client = await broker.client()
        with capture_logs() as lines:
            describe(client, [""] * 500_000)
            assert await client.reader.read() == b""
        [line] = said(lines)
        assert line["event"] == "connection closed: more elements than the API allows"
        assert line["api"] == "DescribeGroups"


async def test_truncated_request_closes_its_connection(tmp_path: Path) -> None:
    async with serving(tmp_path) as broker:
        client = await broker.client()
        body = DESCRIBE_GROUPS.encode_request(0, {"groups": NAMES})[:-3]
        header = encode_request_header(DESCRIBE_GROUPS.key, 0, 1, "tester")
        with capture_logs() as lines:
            client.send_raw(struct.pack(">i", len(header) + len(body)) + header + body)
            assert await client.reader.read() == b""
        [line] = said(lines)
        assert line["event"] == "connection closed: not a Kafka request"


async def test_large_request_is_abandoned_when_its_client_disconnects(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(tmp_path) as broker:
        asked: list[str] = []
        submit = broker.groups.submit

        def counted(group_id: str, call: Any) -> None:
            asked.append(group_id)
            submit(group_id, call)
            if len(asked) == 200:
                client.writer.transport.abort()

        monkeypatch.setattr(broker.groups, "submit", counted)
        client = await broker.client()
        describe(client)
        await eventually(lambda: len(asked) >= 200 and not broker.server.connections)
        await eventually(lambda: not broker.tasks)
        assert len(asked) < MANY


async def test_stop_completes_large_requests_or_closes_their_connections(tmp_path: Path) -> None:
    async with serving(tmp_path) as broker:
        clients = [await broker.client() for _ in range(8)]
        for client in clients:
            describe(client)
        await eventually(lambda: broker.tasks)
    for client in clients:
        # The broker may close the connection before it has read the whole request.
        with suppress(ConnectionResetError):
            await asyncio.wait_for(client.reader.read(), 30)
    await eventually(lambda: not broker.tasks)


async def test_number_of_concurrently_decoded_requests_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(tmp_path) as broker:
        decoded = 0
        most = 0
        take = Request.decoded
        respond = Request.respond

        def taken(request: Request, value: dict[str, Any]) -> None:
            nonlocal decoded, most
            decoded += 1
            most = max(most, decoded)
            take(request, value)

        def ended(request: Request, value: dict[str, Any], error_code: int | None = None) -> None:
            nonlocal decoded
            decoded -= 1
            respond(request, value, error_code)

        monkeypatch.setattr(Request, "decoded", taken)
        monkeypatch.setattr(Request, "respond", ended)
        clients = [await broker.client() for _ in range(12)]
        replies = [client.receive(describe(client, NAMES[:2_000]), 60) for client in clients]
        assert [names_in(reply) for reply in await asyncio.gather(*replies)] == [2_000] * 12
        assert 0 < most <= AT_A_TIME
