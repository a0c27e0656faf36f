"""Tests the expiry of SASL sessions, and the re-authentications that renew them (KIP-368)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
from structlog.testing import capture_logs

from broker.authentication import guesses
from broker.authentication.logins import EXPIRED, RENEWAL_FAILED, RENEWED, SUCCESS, Result
from broker.broker import Broker
from protocol.errors import (
    ILLEGAL_SASL_STATE,
    SASL_AUTHENTICATION_FAILED,
    UNSUPPORTED_SASL_MECHANISM,
)
from security.sasl import exchange
from tests.broker.authentication.letting_in import (
    AUTHENTICATE,
    GROUPS,
    HANDSHAKE,
    LISTENER,
    all_until_closed,
    broker_with_logins,
    connect,
    frozen_clock,
    log_in,
    plain_token,
    with_length,
)
from tests.broker.edge import Client, eventually
from tests.broker.mock_time import MockTime

LONG = {"connections.max.reauth.ms": "60000"}
SHORT = {"connections.max.reauth.ms": "100"}


@pytest.fixture(autouse=True)
def lines() -> Iterator[list[Any]]:
    structlog.reset_defaults()
    with capture_logs() as found:
        yield found


async def list_groups(client: Client) -> int:
    code: int = (await client.call(GROUPS, 0))["error_code"]
    return code


async def end_session(broker: Broker, time: MockTime) -> None:
    """Expires the SASL session of the only connection. Mock time advances beyond its lifetime
    SHORT; real time does not count."""
    time.move(100)
    (connection,) = broker.server.connections
    session = connection.session
    await eventually(lambda: session._timer is None)  # type: ignore[union-attr]


async def test_sasl_session_lifetime_is_returned_and_renewed_by_reauthentication(
    tmp_path: Path,
) -> None:
    async with broker_with_logins(tmp_path, LONG) as (broker, logins):
        client = await connect(broker)
        assert (await log_in(client))["session_lifetime_ms"] == 60_000
        (connection,) = broker.server.connections
        before = connection.principal
        # The broker serves the first request before the renewal; all requests arrive in one
        # segment.
        first = client.send(GROUPS, 0)
        handshake = client.send(HANDSHAKE, 1, mechanism="PLAIN")
        token = client.send(AUTHENTICATE, 2, auth_bytes=plain_token())
        behind = client.send(GROUPS, 0)

        assert (await client.receive(first))["error_code"] == 0
        assert (await client.receive(handshake))["error_code"] == 0
        answer = await client.receive(token)
        assert (answer["error_code"], answer["session_lifetime_ms"]) == (0, 60_000)
        assert (await client.receive(behind))["error_code"] == 0
        assert connection.principal == before
        assert logins.counts == {
            Result(LISTENER, "PLAIN", SUCCESS): 1,
            Result(LISTENER, "PLAIN", RENEWED): 1,
        }


@pytest.mark.proves("security 5")
async def test_connection_with_expired_sasl_session_stays_open_until_next_request(
    tmp_path: Path,
) -> None:
    time = MockTime()
    async with broker_with_logins(tmp_path, SHORT, time=time) as (broker, logins):
        client = await connect(broker)
        await log_in(client)
        assert await list_groups(client) == 0
        await end_session(broker, time)
        assert len(broker.server.connections) == 1, "it says nothing and lives"
        client.send(GROUPS, 0)

        assert await all_until_closed(client) == b""
        assert logins.counts[Result(LISTENER, "PLAIN", EXPIRED)] == 1


async def test_sasl_session_expiry_ignores_jumps_of_the_wall_clock(tmp_path: Path) -> None:
    time = MockTime()
    async with broker_with_logins(tmp_path / "long", LONG, time=time) as (broker, _):
        client = await connect(broker)
        await log_in(client)
        time.wall_ms += 3_600_000
        assert await list_groups(client) == 0
    async with broker_with_logins(tmp_path / "short", SHORT, time=time) as (broker, _):
        client = await connect(broker)
        await log_in(client)
        time.wall_ms -= 7_200_000
        await end_session(broker, time)
        client.send(GROUPS, 0)
        assert await all_until_closed(client) == b""


@pytest.mark.proves("security 5")
async def test_expired_sasl_session_can_be_renewed(tmp_path: Path) -> None:
    time = MockTime()
    async with broker_with_logins(tmp_path, SHORT, time=time) as (broker, _):
        client = await connect(broker)
        await log_in(client)
        await end_session(broker, time)
        assert (await log_in(client))["session_lifetime_ms"] == 100
        assert await list_groups(client) == 0
        await end_session(broker, time)
        # The session has expired, so a second renewal within one second closes the connection.
        client.send(HANDSHAKE, 1, mechanism="PLAIN")
        assert await all_until_closed(client) == b""


@pytest.mark.proves("security 5")
async def test_connection_that_logged_in_after_handshake_v0_is_closed_at_expiry(
    tmp_path: Path,
) -> None:
    time = MockTime()
    async with broker_with_logins(tmp_path, SHORT, time=time) as (broker, _):
        client = await connect(broker)
        await client.call(HANDSHAKE, 0, mechanism="PLAIN")
        client.send_raw(with_length(plain_token()))
        await client.reader.readexactly(4)
        assert await list_groups(client) == 0
        await end_session(broker, time)
        client.send(GROUPS, 0)
        assert await all_until_closed(client) == b""


@pytest.mark.proves("security 6")
async def test_second_reauthentication_within_a_second_fails_and_keeps_connection(
    tmp_path: Path,
) -> None:
    time = MockTime()
    async with broker_with_logins(tmp_path, LONG, time=time) as (broker, _):
        client = await connect(broker)
        await log_in(client)
        await log_in(client)  # The first renewal may immediately follow the login.
        answer = await client.call(HANDSHAKE, 1, mechanism="PLAIN")
        assert answer == {"error_code": ILLEGAL_SASL_STATE, "mechanisms": []}
        assert await list_groups(client) == 0
        time.move(exchange.RENEWAL_MS_MIN)
        assert (await log_in(client))["error_code"] == 0


@pytest.mark.proves("security 6")
async def test_reauthentication_is_refused_when_sasl_sessions_have_no_lifetime(
    tmp_path: Path,
) -> None:
    async with broker_with_logins(tmp_path) as (broker, _):
        client = await connect(broker)
        await log_in(client)
        assert (await client.call(HANDSHAKE, 1, mechanism="PLAIN"))["error_code"] == (
            ILLEGAL_SASL_STATE
        )
        told = await client.call(AUTHENTICATE, 2, auth_bytes=plain_token())
        assert (told["error_code"], told["error_message"]) == (
            ILLEGAL_SASL_STATE,
            "SaslAuthenticate request received after successful authentication",
        )
        assert await list_groups(client) == 0


@pytest.mark.proves("security 6")
async def test_reauthentication_as_another_user_is_refused(tmp_path: Path) -> None:
    async with broker_with_logins(tmp_path, LONG) as (broker, logins):
        client = await connect(broker)
        await log_in(client)
        answer = await log_in(client, "bob")
        assert (answer["error_code"], answer["error_message"]) == (
            SASL_AUTHENTICATION_FAILED,
            "Cannot change principals during re-authentication from User.alice: User.bob",
        )
        assert await all_until_closed(client) == b""
        assert logins.counts[Result(LISTENER, "PLAIN", RENEWAL_FAILED)] == 1


@pytest.mark.proves("security 6")
async def test_connection_is_closed_at_the_next_frame_after_reauthentication_with_another_mechanism(
    tmp_path: Path, lines: list[Any]
) -> None:
    async with broker_with_logins(tmp_path, LONG) as (broker, _):
        client = await connect(broker)
        await log_in(client)
        assert (await client.call(HANDSHAKE, 1, mechanism="SCRAM-SHA-256"))["error_code"] == 0
        client.send(AUTHENTICATE, 1, auth_bytes=b"n,,n=alice,r=x")
        assert await all_until_closed(client) == b""
        assert [line["reason"] for line in lines if line["event"] == "reauthentication failed"] == [
            "SASL mechanism 'SCRAM-SHA-256' requested by client is not supported for"
            " re-authentication of mechanism 'PLAIN'"
        ]


async def test_reauthentication_with_wrong_password_closes_connection_after_delay(
    tmp_path: Path,
) -> None:
    slow = {**LONG, "connection.failed.authentication.delay.ms": "150"}
    async with broker_with_logins(tmp_path, slow) as (broker, _):
        client = await connect(broker)
        await log_in(client)
        await client.call(HANDSHAKE, 1, mechanism="PLAIN")
        loop = asyncio.get_running_loop()
        began = loop.time()
        token = client.send(AUTHENTICATE, 2, auth_bytes=plain_token(password="wrong"))
        client.send(GROUPS, 0)
        answer = await client.receive(token)
        assert loop.time() - began >= 0.149
        assert answer["error_code"] == SASL_AUTHENTICATION_FAILED
        assert await all_until_closed(client) == b"", "what is behind it is not answered"


async def test_password_guesses_in_reauthentications_count_as_failed_logins(
    tmp_path: Path, lines: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with broker_with_logins(tmp_path, LONG, time=frozen_clock()) as (broker, logins):
        # All passwords are wrong.
        for password in ["wrong"] * guesses.FAILURES_AT_ONCE + ["bob-secret"]:
            client = await connect(broker)
            await log_in(client)
            await log_in(client, "bob", password)
            client.close()
        loop = asyncio.get_running_loop()
        began = loop.time()
        client = await connect(broker)
        await log_in(client, "bob")
        assert loop.time() - began >= 0.199, "a login waits for its turn"
        began = loop.time()
        await client.call(HANDSHAKE, 1, mechanism="PLAIN")
        token = client.send(AUTHENTICATE, 2, auth_bytes=plain_token("bob", "bob-secret"))
        behind = client.send(GROUPS, 0)
        assert (await client.receive(token))["error_code"] == 0
        assert loop.time() - began >= 0.399, "and a renewal does"
        assert (await client.receive(behind))["error_code"] == 0

        # The broker refuses a renewal without checking the password if the delay would be too long.
        monkeypatch.setattr(guesses, "WAIT_MS_MAX", 0)
        now_ms = broker.time.now().mono_ms
        logins.guesses.judged("127.0.0.1", "bob", now_ms, is_right=False)
        (connection,) = broker.server.connections
        session: Any = connection.session
        session._exchange._renewal_began_ms = None
        await client.call(HANDSHAKE, 1, mechanism="PLAIN")
        client.send(AUTHENTICATE, 2, auth_bytes=plain_token("bob", "bob-secret"))
        before = logins.counts.copy()
        assert await all_until_closed(client) == b""
        assert logins.counts == before, "nothing was judged"
        assert lines[-1]["reason"] == "too many failed logins of this user from this address"


async def test_timers_are_cancelled_when_client_disconnects_during_delayed_reauthentication(
    tmp_path: Path,
) -> None:
    async with broker_with_logins(tmp_path, LONG, time=frozen_clock()) as (broker, logins):
        client = await connect(broker)
        await log_in(client)
        (connection,) = broker.server.connections
        for _ in range(guesses.FAILURES_AT_ONCE + 10):
            now_ms = broker.time.now().mono_ms
            logins.guesses.judged("127.0.0.1", "alice", now_ms, is_right=False)
        await client.call(HANDSHAKE, 1, mechanism="PLAIN")
        client.send(AUTHENTICATE, 2, auth_bytes=plain_token())
        session: Any = connection.session
        end = session._timer
        await eventually(lambda: session._timer is not end)
        client.close()
        await eventually(lambda: not broker.server.connections)
        assert session._timer is None
        assert logins.counts[Result(LISTENER, "PLAIN", RENEWED)] == 0


async def test_reauthentication_with_an_unknown_mechanism_closes_the_connection(
    tmp_path: Path,
) -> None:
    async with broker_with_logins(tmp_path, LONG) as (broker, _):
        client = await connect(broker)
        await log_in(client)
        answer = await client.call(HANDSHAKE, 1, mechanism="X")
        assert answer["error_code"] == UNSUPPORTED_SASL_MECHANISM
        assert await all_until_closed(client) == b""


@pytest.mark.parametrize("version", [0, 1])
async def test_other_requests_are_not_served_during_a_reauthentication(
    tmp_path: Path, version: int
) -> None:
    async with broker_with_logins(tmp_path, LONG) as (broker, _):
        client = await connect(broker)
        await log_in(client)
        if version == 1:
            await client.call(HANDSHAKE, 1, mechanism="PLAIN")
            assert await list_groups(client) == ILLEGAL_SASL_STATE
        else:  # Clients without reauthentication send raw tokens.
            client.send(HANDSHAKE, 0, mechanism="PLAIN")
        assert await all_until_closed(client) == b""


async def test_reauthentication_message_above_the_size_limit_closes_the_connection(
    tmp_path: Path,
) -> None:
    async with broker_with_logins(tmp_path, LONG) as (broker, _):
        client = await connect(broker)
        await log_in(client)
        await client.call(HANDSHAKE, 1, mechanism="PLAIN")
        client.send(AUTHENTICATE, 1, auth_bytes=bytes(524_289))
        assert await all_until_closed(client) == b""


async def test_sasl_session_that_expires_during_reauthentication_is_renewed(tmp_path: Path) -> None:
    time = MockTime()
    async with broker_with_logins(tmp_path, SHORT, time=time) as (broker, _):
        client = await connect(broker)
        await log_in(client)
        await client.call(HANDSHAKE, 1, mechanism="PLAIN")
        await end_session(broker, time)
        answer = await client.call(AUTHENTICATE, 1, auth_bytes=plain_token())
        assert (answer["error_code"], answer["session_lifetime_ms"]) == (0, 100)
        assert await list_groups(client) == 0


async def test_sasl_session_timer_is_cancelled_when_connection_closes(tmp_path: Path) -> None:
    async with broker_with_logins(tmp_path, LONG) as (broker, _):
        client = await connect(broker)
        await log_in(client)
        (connection,) = broker.server.connections
        session = connection.session
        assert session is not None
        assert session._timer is not None  # type: ignore[attr-defined]
        client.close()
        await eventually(lambda: not broker.server.connections)
        assert session._timer is None  # type: ignore[attr-defined]
