"""Host names that HTTP requests may use. A web page on the internet cannot read from the broker by
DNS rebinding or by a cross-site request."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import structlog
from structlog.testing import capture_logs

from broker.web.http_guard import Hosts
from tests.broker.seen import Seen, seeing

LOOPBACK, NETWORK = "127.0.0.1", "0.0.0.0"
PATHS = ["/", "/page/page.js", "/metrics", "/healthz", "/api/groups", "/api/live", "/nothing-here"]


@pytest.fixture
def lines() -> Iterator[list[Any]]:
    structlog.reset_defaults()
    with capture_logs() as written:
        yield written


@pytest.mark.parametrize(
    ("listener", "host", "known"),
    [
        (LOOPBACK, "127.0.0.1:9644", True),
        (LOOPBACK, "127.0.0.1", True),
        (LOOPBACK, "10.1.2.3:80", True),  # An address has one meaning on every machine.
        (LOOPBACK, "[::1]:9644", True),
        (LOOPBACK, "[fe80::1]", True),
        (LOOPBACK, "localhost:19644", True),  # The local end of a tunnel has another port.
        (LOOPBACK, "LocalHost.", True),
        (LOOPBACK, "this-machine:9644", True),
        (LOOPBACK, "Broker.Example:9644", True),
        (LOOPBACK, "evil.example:9644", False),
        (LOOPBACK, "localhost.evil.example", False),
        (LOOPBACK, "127.0.0.1.evil.example", False),
        (LOOPBACK, "2130706433", False),
        (LOOPBACK, "[evil.example]", False),
        (LOOPBACK, "muster:9644", False),
        (LOOPBACK, "", False),
        (LOOPBACK, ":9644", False),
        (LOOPBACK, ".", False),
        (LOOPBACK, "localhost:9644 evil", False),
        (LOOPBACK, "evil@localhost", False),
        (NETWORK, "muster:9644", True),  # A container in the same network uses this name.
        (NETWORK, "evil.example:9644", False),
        (NETWORK, "muster.evil.example", False),
        (NETWORK, ":9644", False),
        ("dash.example", "dash.example", True),
        ("localhost", "muster", False),
        ("::1", "muster", False),
    ],
)
def test_host_header_is_accepted_only_for_addresses_and_configured_names(
    listener: str, host: str, known: bool
) -> None:
    assert Hosts(listener, ["this-machine", "broker.example", ""], "").has(host) is known


@pytest.mark.parametrize(
    ("allowed", "host", "known"),
    [
        ("dash.example", "dash.example:80", True),
        ("dash.example", "a.dash.example", False),
        ("one.example, *.svc.cluster.local", "muster.kafka.svc.cluster.local", True),
        ("*.svc.cluster.local", "svc.cluster.local", False),
        ("*.example", "evilexample", False),
        ("*", "evil.example", True),
    ],
)
def test_http_allowed_hosts_adds_host_names(allowed: str, host: str, known: bool) -> None:
    assert Hosts(LOOPBACK, [], allowed).has(host) is known


async def ask(seen: Seen, path: str, **headers: str) -> httpx.Response:
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    async with httpx.AsyncClient(base_url=f"http://{seen.address}") as client:
        return await client.get(path, headers=given)


async def test_unknown_host_header_is_refused_and_logged_once(
    tmp_path: Path, lines: list[Any]
) -> None:
    async with seeing(tmp_path) as seen:
        for path in PATHS:
            answer = await ask(seen, path, host="rebound.evil.example:9644")
            assert answer.status_code == 421
            assert answer.json() == {
                "error": "Host 'rebound.evil.example:9644' is not allowed: use"
                " an address, such as 127.0.0.1:9644, or add the name to http.allowed.hosts"
            }

    told = [line for line in lines if "http.allowed.hosts" in line["event"]]
    assert [line["host"] for line in told] == ["'rebound.evil.example:9644'"], "once"


async def test_host_header_with_the_machine_name_or_advertised_name_is_accepted(
    tmp_path: Path,
) -> None:
    settings = {
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "advertised.listeners": "PLAINTEXT://broker.example:9092",
        "http.allowed.hosts": "dash.example",
    }
    async with seeing(tmp_path, settings) as seen:
        for host in ("broker.example", "dash.example", "localhost", f"{socket.gethostname()}:1"):
            assert (await ask(seen, "/healthz", host=host)).status_code == 200


async def test_http_request_without_a_host_header_is_served(tmp_path: Path) -> None:
    """Load balancers send probes with HTTP 1.0, which has no Host header. Browsers do not use HTTP
    1.0."""
    async with seeing(tmp_path) as seen:
        host, _, port = seen.address.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"GET /healthz HTTP/1.0\r\n\r\n")

        assert (await asyncio.wait_for(reader.readline(), 30)).split()[1] == b"200"
        writer.close()


@pytest.mark.parametrize(
    ("site", "mode", "status"),
    [
        ("cross-site", "no-cors", 403),  # An image or a script of another site sends this request.
        ("cross-site", "cors", 403),
        ("cross-site", "navigate", 200),  # A link in a runbook sends this request.
        ("same-origin", "cors", 200),
        ("none", "navigate", 200),
    ],
)
async def test_cross_site_http_requests_are_refused_except_navigation(
    tmp_path: Path, site: str, mode: str, status: int
) -> None:
    async with seeing(tmp_path) as seen:
        headers = {"sec_fetch_site": site, "sec_fetch_mode": mode}
        answer = await ask(seen, "/api/groups", **headers, origin="https://evil.example")

        assert answer.status_code == status
        assert not any(name.startswith("access-control") for name in answer.headers)
