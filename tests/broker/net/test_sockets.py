"""A broker binds either all of its addresses or no address, before it opens its data directory."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.broker import BadDirectory, Broker
from broker.net.sockets import CannotListen, Sockets
from tests.broker.config.served import config


@pytest.fixture
def taken() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"127.0.0.1:{listening.getsockname()[1]}"


def of_two_listeners(directory: Path, second: str, **more: Any) -> Sockets:
    given = {
        "listeners": f"IN://127.0.0.1:0,OUT://{second}",
        "listener.security.protocol.map": "IN:PLAINTEXT,OUT:PLAINTEXT",
    }
    return Sockets(config(directory, **given, **more))


def test_bind_releases_all_addresses_when_one_address_is_in_use(tmp_path: Path, taken: str) -> None:
    sockets = of_two_listeners(tmp_path, taken)

    with pytest.raises(CannotListen, match=f"^can't listen on {taken}: "):
        sockets.bind()

    assert sockets.listeners == []


def test_bind_releases_all_addresses_when_the_http_address_is_in_use(
    tmp_path: Path, taken: str
) -> None:
    sockets = of_two_listeners(tmp_path, "127.0.0.1:0", **{"http.listener": taken})

    with pytest.raises(CannotListen, match=f"^can't listen on {taken}: .*--http off$"):
        sockets.bind()

    assert sockets.listeners == []


def test_bound_address_refuses_connections_until_the_broker_listens(tmp_path: Path) -> None:
    sockets = of_two_listeners(tmp_path, "127.0.0.1:0")
    sockets.bind()

    (host, port), _ = sockets.addresses()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, port), 5)

    sockets.close()


@pytest.mark.parametrize("http", [False, True])
async def test_start_fails_when_another_process_already_listens(tmp_path: Path, http: bool) -> None:
    broker = Broker(config(tmp_path, **{"http.listener": "127.0.0.1:0"}))
    broker.open()
    bound = broker.sockets.http if http else broker.sockets.listeners[0]
    assert bound is not None
    host, port = bound.getsockname()

    # SO_REUSEADDR lets both sockets bind while connections of the previous process are closing.
    with socket.create_server((host, port)):
        with pytest.raises(CannotListen, match=f"^can't listen on {host}:{port}: Address"):
            await broker.start()
        await broker.stop()


def test_failed_start_releases_the_data_directory_and_the_addresses(tmp_path: Path) -> None:
    (tmp_path / "topics.json").write_text("{")
    broker = Broker(config(tmp_path))

    with pytest.raises(BadDirectory):
        broker.open()

    assert broker.sockets.listeners == []
    (tmp_path / "topics.json").unlink()
    again = Broker(config(tmp_path))
    again.open()
    again.release()
