"""A broker whose listener has SASL, and what a test does to log in."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from broker.broker import Broker
from broker.logins.logins import Logins
from broker.logins.users import Upsertion, Users
from broker.loop.slices import Slicer, Slices
from broker.time import Time
from security.credentials import BY_NAME
from security.sasl.plain import MODULE
from tests.broker.edge import Client
from tests.broker.serving import serving

PASSWORDS = {"alice": "alice-secret", "bob": "bob-secret"}
HANDSHAKE, AUTHENTICATE, VERSIONS, METADATA, GROUPS = 17, 36, 18, 3, 16
SALT = b"salt of the tests"


SETTINGS = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    "plain.sasl.jaas.config": f'{MODULE} required user_alice="alice-secret" user_bob="bob-secret";',
    "connection.failed.authentication.delay.ms": "1",
}
LISTENER = "SASL_PLAINTEXT"


def one_go() -> Slices:
    """For work that shares the loop with nobody."""
    return Slicer(Time()).work("test")


async def with_scram(users: Users, name: str, password: str, mechanism: str) -> None:
    """Give somebody a password."""
    by = BY_NAME[mechanism]
    salted = by.salted_password(password.encode(), SALT, 4096)
    done = await users.alter([], [Upsertion(name, by.code, 4096, SALT, salted)], one_go())
    assert not done[name].error_code, done


@asynccontextmanager
async def broker_with_logins(
    directory: Path,
    settings: Mapping[str, str] | None = None,
    *,
    scram: bool = False,
    time: Time | None = None,
) -> AsyncIterator[tuple[Broker, Logins]]:
    """A broker whose one listener asks for a login; ``scram`` for alice and bob too."""
    async with serving(directory, {**SETTINGS, **(settings or {})}, time=time) as broker:
        assert broker.secured.users is not None
        for name, password in PASSWORDS.items() if scram else ():
            for mechanism in BY_NAME:
                await with_scram(broker.secured.users, name, password, mechanism)
        yield broker, broker.secured.logins


def port_of(broker: Broker) -> int:
    """Where clients connect."""
    return broker.sockets.addresses()[0][1]


async def come(broker: Broker) -> Client:
    """A peer that has said nothing."""
    return await Client.connect(port_of(broker))


def plain_token(name: str = "alice", password: str = "alice-secret") -> bytes:
    return f"\0{name}\0{password}".encode()


async def log_in(client: Client, name: str = "alice", password: str = "") -> dict[str, Any]:
    """By PLAIN, in requests; the answer to the token."""
    await client.call(HANDSHAKE, 1, mechanism="PLAIN")
    token = plain_token(name, password or PASSWORDS[name])
    return await client.call(AUTHENTICATE, 2, auth_bytes=token)


async def all_until_closed(client: Client, within_s: float = 20) -> bytes:
    """What the broker still sends until it closes."""
    try:
        return await asyncio.wait_for(client.reader.read(), within_s)
    except ConnectionResetError:
        return b""


def sized(token: bytes) -> bytes:
    """A token as it is, after a handshake of version 0."""
    return struct.pack(">i", len(token)) + token
