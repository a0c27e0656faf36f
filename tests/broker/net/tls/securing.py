"""Helpers for TLS tests: a broker in the event loop of the test, and TLS clients that connect to
it."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from broker.broker import Broker
from tests.broker.serving import serving
from tests.certificates import Authority, Issued
from tests.wire import Wire

T = TypeVar("T")


def with_tls(issued: Issued, **more: str) -> dict[str, str]:
    """Returns broker settings with a plaintext listener and a TLS listener that uses the
    certificate ``issued``."""
    return {
        "listeners": "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0",
        "ssl.keystore.location": str(issued.pem),
        **{name.replace("_", "."): text for name, text in more.items()},
    }


@asynccontextmanager
async def tls_broker(directory: Any, settings: Mapping[str, str]) -> AsyncIterator[Broker]:
    async with serving(directory, settings) as broker:
        yield broker


def port_of(broker: Broker, name: str = "SSL") -> int:
    names = [listener.name for listener in broker.listeners]
    return int(broker.sockets.addresses()[names.index(name)][1])


def client_context(
    authority: Authority, own: Issued | None = None, version: ssl.TLSVersion | None = None
) -> ssl.SSLContext:
    """Returns the TLS context of a client that trusts ``authority`` and has the certificate
    ``own``."""
    context = ssl.create_default_context(cafile=authority.certificate)
    if version is not None:
        context.minimum_version = context.maximum_version = version
    if own is not None:
        context.load_cert_chain(own.pem)
    return context


class TlsWire(Wire):
    """A client with one TLS connection. Sends the bytes of the test unchanged."""

    def __init__(self, port: int, context: ssl.SSLContext) -> None:
        super().__init__(port)
        self.socket = context.wrap_socket(self.socket, server_hostname="127.0.0.1")


async def over_tls(broker: Broker, context: ssl.SSLContext, work: Callable[[TlsWire], T]) -> T:
    """Runs ``work`` with a TLS connection to ``broker`` in a thread, and returns its result."""

    def run() -> T:
        with TlsWire(port_of(broker), context) as wire:
            return work(wire)

    return await asyncio.get_running_loop().run_in_executor(None, run)
