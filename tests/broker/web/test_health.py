"""The path /healthz, and the HTTP address at which commands reach a broker."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
from structlog.testing import capture_logs

from broker.broker import Broker, CannotListen
from broker.config.config_table import BROKER
from broker.cores import shard_lifecycle as life
from log.files.filesystem import OsFileSystem
from log.files.os_file import OsFile
from protocol.buffer import Buffer
from protocol.errors import NONE, NOT_COORDINATOR
from tests.broker.config.served import GROUP, Served, config, serving
from tests.broker.edge import eventually
from tests.broker.mock_time import MockTime
from tests.broker.said import said
from tests.broker.seen import Seen, seeing


@pytest.fixture
def lines() -> Iterator[list[Any]]:
    structlog.reset_defaults()
    with capture_logs() as written:
        yield written


async def probed(seen: Seen) -> dict[str, int]:
    """Returns the HTTP status of each probe path."""
    paths = ("/livez", "/readyz", "/healthz")
    return {path: (await seen.get(path)).status_code for path in paths}


async def test_healthz_of_a_ready_broker_returns_200(tmp_path: Path) -> None:
    async with seeing(tmp_path) as seen:
        answer = await seen.get("/healthz")

        assert (answer.status_code, answer.json()) == (200, {"state": "ready"})
        assert (await seen.get("/nothing-here")).status_code == 404
        assert "/metrics" in (await seen.get("/")).text


async def test_healthz_of_a_loading_broker_returns_its_progress(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(tmp_path) as served:
        for group_id in ("group-a", "group-b"):
            assert await served.client.commit(group_id, 1) == NONE

    gate, load = asyncio.Event(), life.load

    async def held(hosted: Any, *more: Any) -> None:
        if hosted.index == 1:
            await gate.wait()
        await load(hosted, *more)

    monkeypatch.setattr(life, "load", held)
    broker = Broker(config(tmp_path, **{"http.listener": "127.0.0.1:0"}), time=MockTime())
    broker.open()
    await broker.start()
    try:
        seen = Seen(broker, MockTime(), None)  # type: ignore[arg-type]
        broker.start_http()
        seen.address = broker.sockets.http_address() or ""
        await eventually(lambda: broker.health()["partitions_loaded"] == 1)

        answer = await seen.get("/healthz")
        assert answer.status_code == 503
        assert answer.json() == {
            "state": "loading",
            "partitions": 2,
            "partitions_loaded": 1,
            "records_loaded": 1,
            "bytes_loaded": broker.groups.hosted_shards[0].loaded_bytes
            + broker.groups.hosted_shards[1].loaded_bytes,
            "groups_loaded": 1,
            "loading": {},
        }
        assert await probed(seen) == {"/livez": 200, "/readyz": 503, "/healthz": 503}
        assert (await seen.get("/readyz")).json()["state"] == "loading"
        gate.set()
        await eventually(lambda: not broker.groups.life.loading)
        assert (await seen.get("/healthz")).json() == {"state": "ready"}
        assert await probed(seen) == {"/livez": 200, "/readyz": 200, "/healthz": 200}
    finally:
        await broker.stop()


class Disk(OsFileSystem):
    """A disk that the test can fill, and whose fsyncs the test can let fail."""

    def __init__(self) -> None:
        super().__init__()
        self.full = self.broken = False

    def open(self, path: str, create: bool = False) -> OsFile:
        return _File(self, path, create)


class _File(OsFile):
    def __init__(self, disk: Disk, path: str, create: bool) -> None:
        super().__init__(path, create)
        self.disk = disk

    def write(self, position: int, data: Buffer) -> None:
        if self.disk.full and self.path.endswith(".log"):
            raise OSError(28, "No space left on device")
        super().write(position, data)

    def fsync(self) -> None:
        if self.disk.broken:
            raise OSError(5, "Input/output error")
        super().fsync()


async def test_healthz_reports_poisoned_while_a_log_refuses_writes(tmp_path: Path) -> None:
    disk = Disk()
    async with seeing(tmp_path, {"offsets.topic.num.partitions": 1}, fs=disk) as seen:
        disk.full = True
        assert await seen.client.commit(GROUP, 1) == NOT_COORDINATOR

        answer = await seen.get("/healthz")
        assert answer.status_code == 503
        report = answer.json()
        assert report["state"] == "poisoned"
        assert report["logs"] == ["__consumer_offsets-0"]
        assert "No space left on device" in report["reason"]

        # A restart would not help, and the broker serves other partitions.
        assert await probed(seen) == {"/livez": 200, "/readyz": 200, "/healthz": 503}

        disk.full = False
        await eventually(lambda: seen.broker.health()["state"] == "ready")
        assert (await seen.get("/healthz")).status_code == 200
        assert await seen.client.commit(GROUP, 2) == NONE


async def test_healthz_reports_poisoned_permanently_after_a_failed_flush(tmp_path: Path) -> None:
    disk = Disk()
    settings = {"offsets.topic.num.partitions": 1, "log.flush.interval.messages": 1}
    async with seeing(tmp_path, settings, fs=disk) as seen:
        disk.broken = True
        assert await seen.client.commit(GROUP, 1) == NOT_COORDINATOR

        answer = await seen.get("/healthz")
        assert (answer.status_code, answer.json()["state"]) == (503, "poisoned")
        assert "Input/output error" in answer.json()["reason"]
        assert await probed(seen) == {"/livez": 503, "/readyz": 503, "/healthz": 503}
        assert "Input/output error" in (await seen.get("/livez")).json()["reason"]
        assert seen.broker.stopped.is_set(), "and the broker ends"
        disk.broken = False


async def http_addresses(served: Served) -> tuple[str, str]:
    """Returns the configured HTTP address, and the advertised HTTP address that commands read from
    DescribeConfigs."""
    described = await served.described()
    entry = described["http.advertised.listener"]
    assert entry["read_only"]
    return described["http.listener"]["value"], entry["value"]


async def test_http_server_does_not_run_when_http_listener_is_disabled(tmp_path: Path) -> None:
    advertised = {"http.advertised.listener": "muster.example.org:80"}
    async with serving(tmp_path, {"http.listener": "off", **advertised}) as served:
        served.broker.start_http()
        assert served.broker.http is None
        assert await http_addresses(served) == ("off", "off")


async def test_advertised_http_address_has_the_bound_port(tmp_path: Path) -> None:
    async with serving(tmp_path, {"http.listener": "127.0.0.1:0"}) as served:
        served.broker.start_http()
        bound = served.broker.sockets.http_address()
        assert await http_addresses(served) == ("127.0.0.1:0", bound)
        assert bound != "127.0.0.1:0"


async def test_configured_advertised_http_address_is_returned_to_commands(tmp_path: Path) -> None:
    advertised = {"http.advertised.listener": "muster.example.org:80"}
    async with serving(tmp_path, {"http.listener": "127.0.0.1:0", **advertised}) as served:
        assert await http_addresses(served) == ("127.0.0.1:0", "muster.example.org:80")


async def test_start_fails_when_the_configured_http_port_is_in_use(
    tmp_path: Path,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        where = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(CannotListen) as refused:
            Broker(config(tmp_path, **{"http.listener": where})).open()

    assert str(refused.value).startswith(f"can't listen on {where}: Address already in use;")
    assert "--http off" in str(refused.value)


async def test_start_logs_a_warning_when_the_default_http_port_is_in_use(
    tmp_path: Path, lines: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two brokers without HTTP settings can run on one machine: the second broker only logs a
    warning, and runs without HTTP."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        where = f"127.0.0.1:{taken.getsockname()[1]}"
        setting = BROKER["http.listener"]._replace(default=where)
        monkeypatch.setitem(BROKER, "http.listener", setting)
        async with serving(tmp_path, {"http.listener": None}) as served:
            served.broker.start_http()
            assert served.broker.http is None
            assert await served.client.commit(GROUP, 1) == NONE
            assert await http_addresses(served) == (where, "off")

    (warning,) = [line for line in said(lines) if line["log_level"] == "warning"]
    assert warning["event"] == "HTTP not served"
    assert where in warning["reason"]
