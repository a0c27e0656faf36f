"""The addresses of a broker: all had or none, and held before anything else is done."""

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
    """An address that somebody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"127.0.0.1:{listening.getsockname()[1]}"


def of_two_listeners(directory: Path, second: str, **more: Any) -> Sockets:
    given = {
        "listeners": f"IN://127.0.0.1:0,OUT://{second}",
        "listener.security.protocol.map": "IN:PLAINTEXT,OUT:PLAINTEXT",
    }
    return Sockets(config(directory, **given, **more))


def test_where_one_address_is_taken_none_is_held(tmp_path: Path, taken: str) -> None:
    sockets = of_two_listeners(tmp_path, taken)

    with pytest.raises(CannotListen, match=f"^can't listen on {taken}: "):
        sockets.bind()

    assert sockets.listeners == []


def test_a_taken_address_for_http_gives_the_others_up(tmp_path: Path, taken: str) -> None:
    sockets = of_two_listeners(tmp_path, "127.0.0.1:0", **{"http.listener": taken})

    with pytest.raises(CannotListen, match=f"^can't listen on {taken}: .*--http off$"):
        sockets.bind()

    assert sockets.listeners == []


def test_nobody_connects_to_a_bound_address_before_it_listens(tmp_path: Path) -> None:
    sockets = of_two_listeners(tmp_path, "127.0.0.1:0")
    sockets.bind()

    (host, port), _ = sockets.addresses()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, port), 5)

    sockets.close()


@pytest.mark.parametrize("http", [False, True])
async def test_an_address_that_another_is_first_to_listen_on_ends_the_start(
    tmp_path: Path, http: bool
) -> None:
    broker = Broker(config(tmp_path, **{"http.listener": "127.0.0.1:0"}))
    broker.open()
    bound = broker.sockets.http if http else broker.sockets.listeners[0]
    assert bound is not None
    host, port = bound.getsockname()

    # Both want the address although connections of its last owner are ending (SO_REUSEADDR).
    with socket.create_server((host, port)):
        with pytest.raises(CannotListen, match=f"^can't listen on {host}:{port}: Address"):
            await broker.start()
        await broker.stop()


def test_a_start_that_fails_holds_neither_directory_nor_address(tmp_path: Path) -> None:
    (tmp_path / "topics.json").write_text("{")
    broker = Broker(config(tmp_path))

    with pytest.raises(BadDirectory):
        broker.open()

    assert broker.sockets.listeners == []
    (tmp_path / "topics.json").unlink()
    again = Broker(config(tmp_path))
    again.open()
    again.release()
