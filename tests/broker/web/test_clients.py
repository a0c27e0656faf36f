"""The path `/api/clients`: requests and bytes by client id and host."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from broker.net.clients import totals as clients
from tests.broker.edge import Client, eventually
from tests.broker.openapi import fields
from tests.broker.seen import Seen, seeing


async def told(seen: Seen) -> dict[str, Any]:
    """Returns the rows of `/api/clients`, by client id."""
    rows = (await seen.get("/api/clients")).json()["clients"]
    assert {row["host"] for row in rows} == {"127.0.0.1"}
    return {row["client"]: row for row in rows}


async def named(seen: Seen, client_id: str) -> Client:
    port = int(seen.broker.advertised.first[1])
    client = await Client.connect(port)
    client.client_id = client_id
    return client


async def test_request_and_byte_counts_of_clients_add_up_to_the_totals(tmp_path: Path) -> None:
    async with seeing(tmp_path) as seen:
        small, large = await named(seen, "small"), await named(seen, "large")
        second = await named(seen, "large")
        await small.commit("team", 1)
        for client in (large, second):
            for offset in range(5):
                await client.commit("team", offset, partitions=3)
        rows = await told(seen)
        scrape = await seen.scrape()
        for client in (small, large, second):
            client.close()

    assert set(rows["small"]) == fields("Client")
    assert (rows["small"]["connections"], rows["small"]["requests"]) == (1, 1)
    assert (rows["large"]["connections"], rows["large"]["requests"]) == (2, 10)
    assert rows["large"]["bytes_in"] > 10 * rows["small"]["bytes_in"]
    assert rows["large"]["bytes_out"] > 10 * rows["small"]["bytes_out"] > 0
    for name, total in (
        ("bytes_in", "muster_received_bytes_total"),
        ("bytes_out", "muster_sent_bytes_total"),
    ):
        assert sum(row[name] for row in rows.values()) == scrape[total]


async def test_number_of_listed_disconnected_clients_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clients, "GONE_MAX", 2)
    async with seeing(tmp_path) as seen:
        before = await seen.scrape()
        for number in range(4):
            client = await named(seen, f"client-{number}")
            await client.commit("team", number)
            client.close()
            await eventually(lambda: len(seen.broker.server.connections) == 1)
        rows = await told(seen)
        after = await seen.scrape()

    gone = {name: row for name, row in rows.items() if not row["connections"]}
    assert {name: row["requests"] for name, row in gone.items()} == {"client-2": 1, "client-3": 1}
    sizes = [scrape["muster_received_bytes_total"] or 0 for scrape in (before, after)]
    assert sizes[1] - sizes[0] >= 2 * sum(row["bytes_in"] for row in gone.values()), "none is lost"


async def test_http_api_sums_the_clients_beyond_the_maximum_number_in_one_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clients, "SHOWN_MAX", 1)
    async with seeing(tmp_path) as seen:
        other = await named(seen, "other")
        await other.commit("team", 1)
        rows = (await seen.get("/api/clients")).json()["clients"]
        other.close()

    assert len(rows) == 2
    assert sum(row["connections"] for row in rows) == 2
    assert {"client": "", "host": ""}.items() <= rows[1].items()
