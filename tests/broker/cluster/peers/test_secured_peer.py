"""Tests that brokers authenticate to each other, and re-authenticate before their SASL session
expires."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest

from broker.cluster.peers import secured_peer
from broker.cluster.peers.peer import Address, Peer, PeerLost
from broker.cluster.peers.secured_peer import BrokerLogin, SecuredPeers
from broker.time import Time
from protocol.headers import decode_request_header, response_header
from protocol.messages import BY_KEY, api_versions, sasl_authenticate, sasl_handshake
from protocol.messages.metadata import API as METADATA
from security.credentials import BY_NAME, ITERATIONS_MIN, Found, ScramCredential, credential
from security.sasl import plain
from security.sasl.client_side import Credentials
from security.sasl.exchange import Exchange, Mechanism, Then
from security.sasl.scram import ScramServer
from security.sasl.steps import Step

NAME, PASSWORD = "broker", "b=r,oker"
METADATA_ANSWER = {"brokers": [], "controller_id": 7, "topics": []}
SALT = b"salt"


class _Plain:
    def tries(self, message: bytes) -> str | None:
        return plain.tried_name(message)

    def step(self, message: bytes) -> Step:
        return plain.log_in(message, {NAME: PASSWORD})


def _find(mechanism: str, name: str, by_token: bool) -> Found | None:
    hashing = BY_NAME[mechanism]
    salted = hashing.salted_password(PASSWORD.encode(), SALT, ITERATIONS_MIN)
    found = Found(credential(hashing, salted, SALT, ITERATIONS_MIN), name)
    return found if name == NAME and not by_token else None


def _decoy(name: str, by_token: bool) -> ScramCredential:
    return ScramCredential(SALT, b"", b"", ITERATIONS_MIN)


MECHANISMS: Mapping[str, Callable[[], Mechanism]] = {
    "PLAIN": _Plain,
    **{
        each: partial(ScramServer, BY_NAME[each], partial(_find, each), "nonce", _decoy)
        for each in ("SCRAM-SHA-256", "SCRAM-SHA-512")
    },
}


@dataclass
class FakeBroker:
    """The SASL part of another broker: its mechanisms, and the requests that it received."""

    takes: Mapping[str, Callable[[], Mechanism]] = field(default_factory=lambda: MECHANISMS)
    session_ms: int = 0
    newest: Mapping[int, int] = field(
        default_factory=lambda: {sasl_handshake.API.key: 1, sasl_authenticate.API.key: 2}
    )
    asked: list[str] = field(default_factory=list)
    connections: int = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        exchange = Exchange(self.takes, dict.fromkeys(self.takes, self.session_ms))
        while head := await reader.read(4):
            frame = await reader.readexactly(struct.unpack(">i", head)[0])
            answer = self._answer(exchange, frame)
            if answer is None:
                break
            writer.write(struct.pack(">i", len(answer)) + answer)
        writer.close()

    def _answer(self, exchange: Exchange, frame: bytes) -> bytes | None:
        now = Time().now()
        if exchange.takes_raw:
            self.asked.append("token")
            reply = exchange.token(frame, now)
            assert reply.answer is None or isinstance(reply.answer, bytes)
            return reply.answer
        header = decode_request_header(frame)
        api, version = BY_KEY[header.api_key], header.api_version
        self.asked.append(f"{api.name} {version}")
        body = api.decode_request(version, frame, header.position)
        value: Any = METADATA_ANSWER
        if api is api_versions.API:
            keys = {**self.newest, METADATA.key: 12}
            value = {
                "error_code": 0,
                "api_keys": [
                    {"api_key": key, "min_version": 0, "max_version": version}
                    for key, version in keys.items()
                ],
            }
            exchange.served(0)
        elif exchange.is_under_way:
            reply = exchange.request(api.key, version, body, now)
            if reply.then is Then.CLOSE or reply.answer is None:
                return None
            value = reply.answer
        elif api is sasl_handshake.API:
            renewal = exchange.renew(version, body, now)
            value = {"error_code": 34, "mechanisms": []} if renewal is None else renewal.answer
        fitting = {name: value[name] for name in value if version or name != "session_lifetime_ms"}
        head = response_header(api.key, version, header.correlation_id)
        return head + api.encode_response(version, fitting)


@asynccontextmanager
async def connector(
    fellow: FakeBroker, mechanism: str, password: str = PASSWORD
) -> AsyncIterator[Callable[[], Any]]:
    """Yields a function that connects to a listening broker and authenticates."""
    server = await asyncio.start_server(fellow.serve, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    peers = SecuredPeers(None, BrokerLogin(mechanism, Credentials(NAME, password)))
    made: list[Peer] = []

    async def connect() -> Peer:
        made.append(await peers.connect(Address(host, port), "1", Time(), 5000))
        return made[-1]

    try:
        yield connect
    finally:
        for each in made:
            each.close()
        server.close()


async def ask(peer: Peer) -> int:
    answer = await peer.call(
        METADATA, 1, {"topics": None, "allow_auto_topic_creation": False}, 5000
    )
    return int(answer["controller_id"])


@pytest.mark.parametrize("mechanism", MECHANISMS)
async def test_peer_logs_in_before_its_first_request(mechanism: str) -> None:
    fellow = FakeBroker()
    async with connector(fellow, mechanism) as connect:
        peer = await connect()
        assert await asyncio.gather(ask(peer), ask(peer)) == [7, 7]
    rounds = 1 if mechanism == "PLAIN" else 2
    logged_in = ["ApiVersions 0", "SaslHandshake 1", *["SaslAuthenticate 2"] * rounds]
    assert fellow.asked == [*logged_in, "Metadata 1", "Metadata 1"]


@pytest.mark.parametrize("mechanism", MECHANISMS)
async def test_peer_sends_unframed_sasl_tokens_to_a_broker_with_sasl_handshake_v0(
    mechanism: str,
) -> None:
    fellow = FakeBroker(newest={sasl_handshake.API.key: 0})
    async with connector(fellow, mechanism) as connect:
        assert await ask(await connect()) == 7
    rounds = 1 if mechanism == "PLAIN" else 2
    assert fellow.asked == ["ApiVersions 0", "SaslHandshake 0", *["token"] * rounds, "Metadata 1"]


async def test_peer_reauthenticates_between_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secured_peer, "RENEWED_AT", (0.0, 0.0))
    fellow = FakeBroker(session_ms=600_000)
    async with connector(fellow, "SCRAM-SHA-256") as connect:
        peer = await connect()
        monkeypatch.setattr(secured_peer, "RENEWED_AT", (0.9, 0.9))
        assert await asyncio.gather(*[ask(peer) for _ in range(3)]) == [7, 7, 7]
        assert await ask(peer) == 7
    login = ["SaslHandshake 1", "SaslAuthenticate 2", "SaslAuthenticate 2"]
    assert fellow.asked == ["ApiVersions 0", *login, *login, *["Metadata 1"] * 4]
    assert fellow.connections == 1


async def test_refused_reauthentication_closes_the_connection_of_the_peer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The broker refuses a second re-authentication within a second, so the caller must
    reconnect."""
    monkeypatch.setattr(secured_peer, "RENEWED_AT", (0.0, 0.0))
    async with connector(FakeBroker(session_ms=600_000), "PLAIN") as connect:
        peer = await connect()
        await ask(peer)
        with pytest.raises(PeerLost, match="rejects SaslHandshake: ILLEGAL_SASL_STATE"):
            await ask(peer)
        assert peer.lost is not None
        with pytest.raises(PeerLost, match="rejects SaslHandshake"):
            await ask(peer)


async def test_peer_does_not_reauthenticate_when_its_login_has_no_session_lifetime(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(secured_peer, "RENEWED_AT", (0.0, 0.0))
    fellow = FakeBroker()
    async with connector(fellow, "PLAIN") as connect:
        await ask(await connect())
    assert fellow.asked.count("SaslHandshake 1") == 1


@pytest.mark.parametrize("mechanism", MECHANISMS)
async def test_error_about_a_wrong_peer_password_does_not_contain_the_password(
    mechanism: str,
) -> None:
    async with connector(FakeBroker(), mechanism, "hunter2") as connect:
        with pytest.raises(
            PeerLost, match=f"rejects the login of broker with {mechanism}: "
        ) as lost:
            await connect()
    assert "hunter2" not in str(lost.value)


async def test_peer_reports_a_mechanism_that_the_other_broker_has_not_enabled() -> None:
    async with connector(FakeBroker(takes={"PLAIN": _Plain}), "SCRAM-SHA-512") as connect:
        with pytest.raises(PeerLost, match=r"does not enable .*=SCRAM-SHA-512: it enables PLAIN"):
            await connect()


class _Impostor:
    """A server that accepts each login although it does not know the password."""

    def __init__(self) -> None:
        self._known = ScramServer(
            BY_NAME["SCRAM-SHA-256"], partial(_find, "SCRAM-SHA-256"), "nonce", _decoy
        )

    def tries(self, message: bytes) -> str | None:
        return self._known.tries(message)

    def step(self, message: bytes) -> Step:
        step = self._known.step(message)
        return step._replace(message=b"v=AAAA") if step.message.startswith(b"v=") else step


async def test_peer_rejects_a_broker_that_does_not_know_the_password() -> None:
    fellow = FakeBroker(takes={"SCRAM-SHA-256": _Impostor})
    async with connector(fellow, "SCRAM-SHA-256") as connect:
        text = "invalid SCRAM response: the server signature does not match the password"
        with pytest.raises(PeerLost, match=text):
            await connect()
