"""Starts a broker whose listener requires SASL, and provides functions for the steps of a login."""

from __future__ import annotations

import asyncio
import struct
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from broker.authentication.logins import Logins
from broker.authentication.users import Upsertion, Users
from broker.broker import Broker
from broker.loop.slices import Slicer, Slices
from broker.time import Time
from protocol.headers import encode_request_header
from protocol.messages import BY_KEY
from security.credentials import BY_NAME, ScramMechanism
from security.sasl.plain import MODULE
from tests.broker.edge import Client
from tests.broker.serving import serving

PASSWORDS = {"alice": "alice-secret", "bob": "bob-secret"}
HANDSHAKE, AUTHENTICATE, VERSIONS, METADATA, GROUPS = 17, 36, 18, 3, 16
SALT = b"2a0kd8m3vq7zx1c5w9e4r6t0yb"
SHA = ScramMechanism.SHA_256


SETTINGS = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    "plain.sasl.jaas.config": f'{MODULE} required user_alice="alice-secret" user_bob="bob-secret";',
    "connection.failed.authentication.delay.ms": "1",
}
LISTENER = "SASL_PLAINTEXT"


def own_slices() -> Slices:
    """Returns slices for work that does not share the event loop with other tasks."""
    return Slicer(Time()).work("test")


async def add_scram_user(
    users: Users, name: str, password: str, mechanism: str, iterations: int = 4096
) -> None:
    by = BY_NAME[mechanism]
    salted = by.salted_password(password.encode(), SALT, iterations)
    done = await users.alter([], [Upsertion(name, by.code, iterations, SALT, salted)], own_slices())
    assert not done[name].error_code, done


def frozen_clock() -> Time:
    """Returns a clock that does not advance, so that no recorded login failure expires. Timers
    still fire."""
    return Time(monotonic_s=lambda: 1000.0)


@asynccontextmanager
async def broker_with_logins(
    directory: Path,
    settings: Mapping[str, str] | None = None,
    *,
    scram: bool = False,
    iterations: int = 4096,
    time: Time | None = None,
) -> AsyncIterator[tuple[Broker, Logins]]:
    """Yields a broker whose only listener requires a login. ``scram`` creates credentials for alice
    and bob."""
    async with serving(directory, {**SETTINGS, **(settings or {})}, time=time) as broker:
        assert broker.secured.users is not None
        for name, password in PASSWORDS.items() if scram else ():
            for mechanism in BY_NAME:
                await add_scram_user(broker.secured.users, name, password, mechanism, iterations)
        yield broker, broker.secured.logins


def port_of(broker: Broker) -> int:
    return broker.sockets.addresses()[0][1]


async def connect(broker: Broker) -> Client:
    return await Client.connect(port_of(broker))


def plain_token(name: str = "alice", password: str = "alice-secret") -> bytes:
    return f"\0{name}\0{password}".encode()


async def log_in(client: Client, name: str = "alice", password: str = "") -> dict[str, Any]:
    """Logs in with PLAIN. Returns the response to SaslAuthenticate."""
    await client.call(HANDSHAKE, 1, mechanism="PLAIN")
    token = plain_token(name, password or PASSWORDS[name])
    return await client.call(AUTHENTICATE, 2, auth_bytes=token)


async def log_in_by_scram(
    client: Client, name: bytes, password: bytes, *, nonce: bytes = b"", header: bytes = b"n,,"
) -> dict[str, Any]:
    """Logs in with SCRAM. Returns the response to the last message. ``nonce`` falsifies the
    client's final message: it is put before the correct nonce."""
    await client.call(HANDSHAKE, 1, mechanism=SHA.mechanism)
    bare = b"n=" + name + b",r=abc"
    first = await client.call(AUTHENTICATE, 1, auth_bytes=header + bare)
    if first["error_code"]:
        return first
    joined, salt, rounds = (part[2:] for part in first["auth_bytes"].split(b","))
    unproved = b"c=" + b64encode(header) + b",r=" + (nonce + joined if nonce else joined)
    salted = SHA.salted_password(password, b64decode(salt), int(rounds))
    key = SHA.hmac(salted, b"Client Key")
    signature = SHA.hmac(SHA.hash(key), b",".join((bare, first["auth_bytes"], unproved)))
    proof = bytes(a ^ b for a, b in zip(key, signature, strict=True))
    return await client.call(AUTHENTICATE, 1, auth_bytes=unproved + b",p=" + b64encode(proof))


async def all_until_closed(client: Client, within_s: float = 20) -> bytes:
    try:
        return await asyncio.wait_for(client.reader.read(), within_s)
    except ConnectionResetError:
        return b""


def cut_requests(secret: bytes, key: int, version: int, **body: Any) -> list[bytes]:
    """Returns two requests that end within ``secret``. The first request has the length prefix of
    the shortened request. The second request has the length prefix of the complete request, so it
    is incomplete."""
    whole = encode_request_header(key, version, 1, "x")
    whole += BY_KEY[key].encode_request(version, body)
    end = whole.index(secret) + len(secret) - 4
    return [with_length(whole[:end]), with_length(whole)[: end + 4]]


async def send_cut(client: Client, request: bytes) -> None:
    client.send_raw(request)
    client.writer.write_eof()
    assert await all_until_closed(client) == b""


def with_length(token: bytes) -> bytes:
    """Returns a token with its length prefix, as clients send it after SaslHandshake version 0."""
    return struct.pack(">i", len(token)) + token
