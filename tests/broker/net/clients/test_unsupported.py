"""The broker counts each unsupported request and logs each client once per hour."""

from __future__ import annotations

import asyncio
import struct
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
import structlog
from structlog.testing import capture_logs

from broker.net.clients import stuck_clients
from broker.net.clients.unsupported import CLIENTS_MAX, SAID_EVERY_MS, Unsupported
from protocol.errors import INVALID_REQUEST, NONE
from protocol.headers import encode_request_header
from protocol.messages.api_versions import API as API_VERSIONS
from protocol.messages.consumer_group_heartbeat import API as CONSUMER_GROUP_HEARTBEAT
from protocol.messages.describe_groups import API as DESCRIBE_GROUPS
from protocol.messages.fetch import API as FETCH
from protocol.messages.find_coordinator import API as FIND_COORDINATOR
from tests.broker.edge import Client, eventually
from tests.broker.mock_time import MockTime
from tests.broker.seen import Seen, seeing

CLASSIC_ONLY = {"group.coordinator.rebalance.protocols": "classic"}
"""The settings of a broker that does not serve ConsumerGroupHeartbeat."""
SOFTWARE = {"client_software_name": "librdkafka", "client_software_version": "2.16.0"}


@pytest.fixture
def lines() -> Iterator[list[Any]]:
    structlog.reset_defaults()
    with capture_logs() as written:
        yield written


def said(lines: list[Any]) -> list[Any]:
    return [line for line in lines if line["event"] == "unsupported request"]


async def client_of(seen: Seen, client_id: str = "billing") -> Client:
    """Returns a client on a new connection that has sent ApiVersions with a client id and a
    software name."""
    client = await Client.connect(seen.broker.sockets.addresses()[0][1])
    client.client_id = client_id
    assert (await client.call(API_VERSIONS.key, 3, **SOFTWARE))["error_code"] == NONE
    return client


async def find(client: Client, group_id: str, key_type: int = 0) -> int:
    reply = await client.call(
        FIND_COORDINATOR.key, 4, key_type=key_type, coordinator_keys=[group_id]
    )
    code: int = reply["coordinators"][0]["error_code"]
    return code


def pass_s(seen: Seen, seconds: int) -> None:
    """Advances the time and runs the server's periodic checks once."""
    seen.time.move(seconds * 1000)
    seen.broker.server.now_s = seen.time.now().mono_ms // 1000
    seen.broker.server.look_around()


# -- requests


async def asks_for_the_new_protocol(seen: Seen) -> None:
    client = await client_of(seen)
    header = encode_request_header(CONSUMER_GROUP_HEARTBEAT.key, 1, 7, client.client_id)
    body = CONSUMER_GROUP_HEARTBEAT.encode_request(1, {"group_id": "g", "member_id": "m"})
    client.send_raw(struct.pack(">i", len(header) + len(body)) + header + body)
    assert await client.closed_by_peer()


async def test_unsupported_api_is_logged_once_per_hour(tmp_path: Path, lines: list[Any]) -> None:
    async with seeing(tmp_path, CLASSIC_ONLY) as seen:
        for _ in range(3):
            await asks_for_the_new_protocol(seen)

        (line,) = said(lines)
        assert line == {
            "event": "unsupported request",
            "log_level": "warning",
            "api": "ConsumerGroupHeartbeat",
            "client_id": "billing",
            "host": "/127.0.0.1",
            "software": "librdkafka 2.16.0",
            "advice": "this broker does not serve this API",
        }
        scrape = await seen.scrape()
        assert scrape["muster_unsupported_requests_total", "api=ConsumerGroupHeartbeat"] == 3
        assert scrape["muster_unsupported_requests_total", "api=EndTxn"] == 0, (
            "there from the start"
        )
        seen.time.move(SAID_EVERY_MS)
        await asks_for_the_new_protocol(seen)
        assert len(said(lines)) == 2


async def test_unsupported_first_request_of_a_connection_is_logged_with_its_client(
    tmp_path: Path, lines: list[Any]
) -> None:
    async with seeing(tmp_path) as seen:
        client = await Client.connect(seen.broker.sockets.addresses()[0][1])
        header = encode_request_header(FETCH.key, 3, 1, "old one")
        client.send_raw(
            struct.pack(">i", len(header)) + header[:2] + struct.pack(">h", 99) + header[4:]
        )
        assert await client.closed_by_peer()

        (line,) = said(lines)
        assert (line["api"], line["client_id"]) == ("Fetch", "old one")
        assert line["advice"] == "the request has version 99, but this broker serves 0 to 18"


async def test_old_find_coordinator_request_for_a_share_group_is_logged_as_unsupported(
    tmp_path: Path, lines: list[Any]
) -> None:
    async with seeing(tmp_path) as seen:
        client = await client_of(seen, "payer")

        for _ in range(2):
            assert await find(client, "share", 2) == INVALID_REQUEST

        advice = "the key of a share partition needs FindCoordinator version 6 or later"
        assert [(line["api"], line["advice"]) for line in said(lines)] == [
            ("FindCoordinator", advice)
        ]
        (told,) = (await seen.get("/api/broker")).json()["unsupported"]
        assert told == {
            "api": "FindCoordinator",
            "client_id": "payer",
            "host": "127.0.0.1",
            "software": "librdkafka 2.16.0",
            "advice": advice,
            "count": 2,
            "last_ms": seen.time.now().wall_ms,
        }


async def test_newer_version_of_api_versions_is_not_logged(
    tmp_path: Path, lines: list[Any]
) -> None:
    async with seeing(tmp_path) as seen:
        client = await client_of(seen)
        header = encode_request_header(API_VERSIONS.key, 0, 1, "newer")
        client.send_raw(
            struct.pack(">i", len(header)) + header[:2] + struct.pack(">h", 99) + header[4:]
        )

        await client.receive_raw()
        assert said(lines) == []


def test_number_of_stored_clients_with_unsupported_requests_is_bounded() -> None:
    class Asking:
        client_host, software = "/127.0.0.1", ""

        def __init__(self, number: int) -> None:
            self.client_id = f"client-{number}"

    unsupported = Unsupported(MockTime())
    for number in range(CLIENTS_MAX + 5):
        unsupported.asked(Asking(number), "EndTxn", "no")

    wanted = unsupported.wanted()
    assert len(wanted) == CLIENTS_MAX
    assert wanted[0].client_id == f"client-{CLIENTS_MAX + 4}"
    assert unsupported.counts["EndTxn"] == CLIENTS_MAX + 5


# -- clients that find their coordinator but send no request to it


async def test_client_that_finds_its_coordinator_but_sends_it_no_request_is_logged(
    tmp_path: Path, lines: list[Any]
) -> None:
    async with seeing(tmp_path) as seen:
        bootstrap, other = await client_of(seen), await client_of(seen)
        for client in (bootstrap, bootstrap, other):
            assert await find(client, "invoices") == NONE
        pass_s(seen, stuck_clients.PATIENCE_S - 1)
        assert said(lines) == []

        pass_s(seen, 1)

        (line,) = said(lines)
        assert line["api"] == "ConsumerGroupHeartbeat"
        assert line["client_id"] == "billing"
        assert line["software"] == "librdkafka 2.16.0"
        assert line["advice"].startswith(
            "the client found the coordinator of group 'invoices', but sends no request"
        )
        assert line["advice"].endswith("set group.protocol=classic")
        scrape = await seen.scrape()
        assert scrape["muster_unsupported_requests_total", "api=ConsumerGroupHeartbeat"] == 1
        pass_s(seen, 60)
        assert len(said(lines)) == 1


async def joins(seen: Seen, client: Client) -> None:
    await (await client_of(seen)).join_alone("invoices")


async def describes(seen: Seen, client: Client) -> None:
    await (await client_of(seen)).call(DESCRIBE_GROUPS.key, 5, groups=["invoices"])


async def commits(seen: Seen, client: Client) -> None:
    assert await client.commit("invoices", 1) == NONE


async def disconnects(seen: Seen, client: Client) -> None:
    client.close()
    await eventually(lambda: len(seen.broker.server.connections) == 1)


@pytest.mark.parametrize("does", [joins, describes, commits, disconnects])
async def test_client_is_not_logged_as_unsupported_when_it_sends_group_requests_or_disconnects(
    tmp_path: Path, lines: list[Any], does: Any
) -> None:
    async with seeing(tmp_path) as seen:
        client = await client_of(seen)
        assert await find(client, "invoices") == NONE
        await does(seen, client)

        pass_s(seen, stuck_clients.PATIENCE_S + 1)

        assert said(lines) == []


async def test_client_that_sends_find_coordinator_on_an_old_connection_is_not_logged_as_stuck(
    tmp_path: Path, lines: list[Any]
) -> None:
    async with seeing(tmp_path) as seen:
        client = await client_of(seen)
        pass_s(seen, stuck_clients.NEW_S + 1)
        assert await find(client, "invoices") == NONE
        pass_s(seen, stuck_clients.PATIENCE_S + 1)

        assert said(lines) == []


async def test_member_that_repeats_find_coordinator_is_not_logged(
    tmp_path: Path, lines: list[Any]
) -> None:
    async with seeing(tmp_path) as seen:
        member = await client_of(seen)
        await member.join_alone("invoices")
        pass_s(seen, stuck_clients.PATIENCE_S * 2)
        again = await client_of(seen)
        assert await find(again, "invoices") == NONE

        pass_s(seen, stuck_clients.PATIENCE_S + 1)

        assert said(lines) == []


SENTENCE = "client 'billing' on 127.0.0.1 has not been served since "
WHY = "unsupported request: the client uses group.protocol=consumer"


async def findings(seen: Seen, group_id: str) -> list[str]:
    """Returns the findings in the journal of the group, or an empty list if the group is
    unknown."""
    journal = (await seen.get(f"/api/groups/{group_id}/journal")).json()
    return [f"{each['sentence']}; {each['advice']}" for each in journal.get("findings", ())]


async def test_finding_about_a_group_names_the_client_that_sends_consumer_group_heartbeat(
    tmp_path: Path,
) -> None:
    async with seeing(tmp_path, CLASSIC_ONLY) as seen:
        for _ in range(2):
            await asks_for_the_new_protocol(seen)

        (finding,) = await findings(seen, "g")
        assert finding.startswith(SENTENCE)
        assert finding.endswith(f": {WHY}; set group.protocol=classic in the client")
        journal = (await seen.get("/api/groups/g/journal")).json()
        (refused,) = journal["refused_joins"]
        assert (refused["error"], refused["count"]) == ("UNSUPPORTED_VERSION", 2)
        assert (refused["last"]["client"], refused["last"]["why"]) == ("billing", WHY)


async def test_malformed_consumer_group_heartbeat_is_not_recorded_as_an_unsupported_request(
    tmp_path: Path,
) -> None:
    async with seeing(tmp_path) as seen:
        client = await client_of(seen)
        header = encode_request_header(CONSUMER_GROUP_HEARTBEAT.key, 1, 7, client.client_id)
        client.send_raw(struct.pack(">i", len(header) + 1) + header + b"\xff")
        assert await client.closed_by_peer()

        assert seen.broker.keeper.journal.get("") is None


async def test_finding_about_a_stuck_client_lasts_until_the_client_calls_its_coordinator(
    tmp_path: Path,
) -> None:
    async with seeing(tmp_path) as seen:
        assert await find(await client_of(seen), "invoices") == NONE
        pass_s(seen, stuck_clients.PATIENCE_S)
        assert (await findings(seen, "invoices"))[0].startswith(SENTENCE)

        other = await client_of(seen)
        for _ in range(
            10
        ):  # Clients request metadata equally often, which keeps their idle connections open.
            assert (await other.call(API_VERSIONS.key, 3, **SOFTWARE))["error_code"] == NONE
            pass_s(seen, stuck_clients.AGAIN_S)
            assert len(await findings(seen, "invoices")) == 1

        await (await client_of(seen)).join_alone("invoices")
        pass_s(seen, stuck_clients.AGAIN_S)
        assert await findings(seen, "invoices") == []


async def test_problem_of_an_unsupported_client_is_not_reported_after_its_disconnect(
    tmp_path: Path,
) -> None:
    async with seeing(tmp_path) as seen:
        client = await client_of(seen)
        assert await find(client, "invoices") == NONE
        pass_s(seen, stuck_clients.PATIENCE_S)
        assert len(await findings(seen, "invoices")) == 1

        client.close()
        await eventually(lambda: len(seen.broker.server.connections) == 1)
        for _ in range(3):
            pass_s(seen, stuck_clients.AGAIN_S)

        assert await findings(seen, "invoices") == []


async def test_consumer_group_heartbeat_of_a_client_without_rights_to_the_group_adds_no_finding(
    tmp_path: Path,
) -> None:
    settings = CLASSIC_ONLY | {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:admin",
    }
    async with seeing(tmp_path, settings) as seen:
        await asks_for_the_new_protocol(seen)

        assert seen.broker.keeper.journal.get("g") is None


async def test_librdkafka_client_with_group_protocol_consumer_is_logged(
    tmp_path: Path, lines: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log line matters, because librdkafka delivers neither messages nor an error to its
    application."""
    async with seeing(tmp_path, CLASSIC_ONLY) as seen:
        monkeypatch.setattr(stuck_clients, "PATIENCE_S", 1)
        heard: list[object] = []
        settings = {
            "bootstrap.servers": f"127.0.0.1:{seen.broker.sockets.addresses()[0][1]}",
            "client.id": "new-protocol",
            "group.id": "invoices",
            "group.protocol": "consumer",
            "error_cb": heard.append,
        }
        done = threading.Event()

        def consume() -> None:
            consumer = confluent_kafka.Consumer(settings)
            consumer.subscribe(["orders"])
            while not done.is_set():
                message = consumer.poll(0.05)
                heard.extend([] if message is None else [message])
            consumer.close()

        consuming = asyncio.ensure_future(asyncio.to_thread(consume))
        requests = seen.broker.server.errors[FIND_COORDINATOR.key]
        await eventually(lambda: requests[NONE] > 1)

        def looked() -> bool:
            pass_s(seen, 1)
            return bool(said(lines))

        await eventually(looked)
        done.set()
        await consuming

        (line,) = said(lines)
        assert line["client_id"] == "new-protocol"
        assert line["software"].startswith("confluent-kafka-python ")
        assert heard == []
