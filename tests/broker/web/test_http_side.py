"""The HTTP server of a broker. The first HTTP connection creates the web application in a
thread."""

from __future__ import annotations

import threading
from pathlib import Path

import httpx
import pytest
import structlog
from structlog.testing import capture_logs

from broker.web.http_side import HttpSide
from broker.web.site import Site
from protocol.errors import NONE
from tests.broker.config.served import GROUP
from tests.broker.edge import eventually
from tests.broker.seen import seeing


@pytest.fixture
def makers(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Returns a list that receives the id of each thread that creates the web application."""
    found: list[int] = []
    make = HttpSide._make

    def noted(side: HttpSide) -> Site:
        found.append(threading.get_ident())
        return make(side)

    monkeypatch.setattr(HttpSide, "_make", noted)
    return found


async def test_first_http_connection_creates_the_web_application_in_a_thread(
    tmp_path: Path, makers: list[int]
) -> None:
    async with seeing(tmp_path) as seen:
        assert await seen.client.commit(GROUP, 1) == NONE
        assert makers == [], "a client of Kafka's needs none of it"
        assert (await seen.get("/livez")).status_code == 200
        assert (await seen.get("/livez")).status_code == 200
        (maker,) = makers
        assert maker != threading.get_ident()


async def test_trends_and_verdicts_are_computed_before_any_http_request(
    tmp_path: Path, makers: list[int]
) -> None:
    async with seeing(tmp_path) as seen:
        await seen.client.commit(GROUP, 1)
        await eventually(lambda: seen.broker.trends.taken > 0)
        await eventually(lambda: seen.broker.verdicts._held)
        assert makers == []


async def test_broker_stops_cleanly_when_no_http_request_arrived(
    tmp_path: Path, makers: list[int]
) -> None:
    async with seeing(tmp_path) as seen:
        broker = seen.broker
    assert makers == []
    assert broker.internal_errors.counts["stop"] == 0


async def test_failure_of_the_http_server_does_not_affect_kafka_clients(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(_: HttpSide) -> Site:
        raise ImportError("no module named starlette")

    monkeypatch.setattr(HttpSide, "_make", fails)
    structlog.reset_defaults()
    with capture_logs() as lines:
        async with seeing(tmp_path) as seen:
            with pytest.raises(httpx.TransportError):
                await seen.get("/livez")
            await eventually(lambda: seen.broker.internal_errors.counts["http"] == 1)
            assert await seen.client.commit(GROUP, 1) == NONE
    assert [line["place"] for line in lines if "place" in line] == ["http"]
