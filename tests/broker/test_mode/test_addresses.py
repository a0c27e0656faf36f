"""A process in test mode reserves its addresses until it ends, also on systems on which two sockets
can be bound to one address."""

from __future__ import annotations

import socket

import pytest

from broker.config.sources import load
from broker.net.limits.connections import limits_of
from broker.net.sockets import CannotListen, bind
from broker.test_mode import addresses
from broker.test_mode.addresses import Addresses
from broker.test_mode.settings import DEFAULTS

CONFIG = load(None, {}, [], {}, DEFAULTS)
LIMITS = limits_of(CONFIG)


@pytest.mark.parametrize("bound_twice", [True, False])
def test_reserved_address_can_be_bound_only_by_the_broker_of_the_process(
    monkeypatch: pytest.MonkeyPatch, bound_twice: bool
) -> None:
    monkeypatch.setattr(addresses, "_BOUND_TWICE", bound_twice)
    ours = Addresses(CONFIG)
    (endpoint,) = ours.listeners
    place = (endpoint.host, endpoint.port)
    for _ in range(3):
        if bound_twice:  # Without double binding, the operating system refuses the second bind.
            with pytest.raises(OSError, match="in use"):
                bind(*place, LIMITS)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(place, 5)
        ours.lend()
        with bind(*place, LIMITS) as run:
            run.listen()
            socket.create_connection(place, 5).close()
        ours.hold()
    ours.close()
    bind(*place, LIMITS).close()


def test_reserved_addresses_are_released_when_one_address_is_in_use() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other, socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        taken, http = other.getsockname()[1], free.getsockname()[1]
        free.close()
        flags = {
            "listeners": f"PLAINTEXT://127.0.0.1:{taken}",
            "http.listener": f"127.0.0.1:{http}",
        }
        with pytest.raises(CannotListen, match=f"can't listen on 127.0.0.1:{taken}"):
            Addresses(load(None, {}, [], flags))
        bind("127.0.0.1", http, LIMITS).close()


def test_address_on_which_another_socket_listens_is_refused() -> None:
    with bind("127.0.0.1", 0, LIMITS) as other:
        port = other.getsockname()[1]
        flags = {"listeners": f"PLAINTEXT://127.0.0.1:{port}", "http.listener": "127.0.0.1:0"}
        other.listen()
        with pytest.raises(CannotListen, match=f"can't listen on 127.0.0.1:{port}"):
            Addresses(load(None, {}, [], flags))
