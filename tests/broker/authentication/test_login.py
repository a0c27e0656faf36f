"""Tests of logins. Before its login, a client receives the same bytes as from Kafka. The duration
and the memory of a login are bounded."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
from structlog.testing import capture_logs

from broker.authentication import guesses, login_protocol, logins
from broker.authentication.logins import FAILURE, NO_MECHANISM, SUCCESS, Result
from broker.loop import watchdog
from protocol.errors import (
    ILLEGAL_SASL_STATE,
    INVALID_REQUEST,
    SASL_AUTHENTICATION_FAILED,
    UNSUPPORTED_SASL_MECHANISM,
    UNSUPPORTED_VERSION,
)
from protocol.headers import encode_request_header
from tests.broker.authentication.letting_in import (
    AUTHENTICATE,
    GROUPS,
    HANDSHAKE,
    LISTENER,
    METADATA,
    VERSIONS,
    all_until_closed,
    broker_with_logins,
    connect,
    frozen_clock,
    log_in,
    log_in_by_scram,
    plain_token,
    with_length,
)
from tests.broker.edge import Client, eventually
from tests.broker.serving import serving
from tests.core_waits import CoreWaits

SOFTWARE = {"client_software_name": "tester", "client_software_version": "1"}


@pytest.fixture(autouse=True)
def lines() -> Iterator[list[Any]]:
    structlog.reset_defaults()
    with capture_logs() as found:
        yield found


def reasons(lines: list[Any]) -> list[str]:
    return [line["reason"] for line in lines if line["event"] == "login failed"]


async def serves(client: Client) -> bool:
    return (await client.call(GROUPS, 0))["error_code"] == 0


async def test_plain_login_sets_the_principal_of_the_connection(tmp_path: Path) -> None:
    async with broker_with_logins(tmp_path) as (broker, logins):
        client = await connect(broker)
        answer = await log_in(client)

        assert answer == {
            "error_code": 0,
            "error_message": "",
            "auth_bytes": b"",
            "session_lifetime_ms": 0,
        }
        assert await serves(client)
        (connection,) = broker.server.connections
        assert str(connection.principal) == "User:alice"
        assert logins.counts == {Result(LISTENER, "PLAIN", SUCCESS): 1}


async def test_requests_pipelined_after_the_last_login_message_are_served(tmp_path: Path) -> None:
    async with broker_with_logins(tmp_path) as (broker, _):
        client = await connect(broker)
        handshake = client.send(HANDSHAKE, 1, mechanism="PLAIN")
        token = client.send(AUTHENTICATE, 1, auth_bytes=plain_token())
        first, second = client.send(GROUPS, 0), client.send(METADATA, 1, topics=[])

        for handle in (handshake, token, first):
            assert (await client.receive(handle))["error_code"] == 0
        assert (await client.receive(second))["brokers"]


async def test_login_succeeds_when_each_byte_arrives_separately(tmp_path: Path) -> None:
    async with broker_with_logins(tmp_path) as (broker, _):
        client, copy = await connect(broker), await connect(broker)
        sent: list[bytes] = []
        copy.send_raw = sent.append  # type: ignore[method-assign]
        handles = [
            copy.send(HANDSHAKE, 1, mechanism="PLAIN"),
            copy.send(AUTHENTICATE, 2, auth_bytes=plain_token()),
            copy.send(GROUPS, 0),
        ]
        for byte in b"".join(sent):
            client.send_raw(bytes([byte]))
            await asyncio.sleep(0)

        for handle in handles:
            assert (await client.receive(handle))["error_code"] == 0


@pytest.mark.proves("security 2")
async def test_api_versions_may_be_repeated_before_login_after_an_error(
    tmp_path: Path,
) -> None:
    async with broker_with_logins(tmp_path) as (broker, _):
        client = await connect(broker)
        header = struct.pack(">hhihx", VERSIONS, 99, 1, -1)
        client.send_raw(struct.pack(">i", len(header)) + header)
        correlation_id, code, count, key = struct.unpack_from(">ihih", await client.receive_raw())
        assert (correlation_id, code, count, key) == (1, UNSUPPORTED_VERSION, 1, VERSIONS)

        wrong = await client.call(
            VERSIONS, 3, client_software_name="-", client_software_version="1"
        )
        assert wrong["error_code"] == INVALID_REQUEST
        good = await client.call(VERSIONS, 3, **SOFTWARE)
        assert {HANDSHAKE, AUTHENTICATE, METADATA} <= {k["api_key"] for k in good["api_keys"]}
        await log_in(client)
        assert await serves(client)
        (connection,) = broker.server.connections
        assert connection.software == "tester 1"


@pytest.mark.proves("security 2")
async def test_second_valid_api_versions_closes_the_connection(
    tmp_path: Path, lines: list[Any]
) -> None:
    async with broker_with_logins(tmp_path) as (broker, _):
        client = await connect(broker)
        assert (await client.call(VERSIONS, 0))["error_code"] == 0
        client.send(VERSIONS, 0)

        assert await all_until_closed(client) == b""
        assert reasons(lines) == ["a second ApiVersions arrived before the login"]


@pytest.mark.proves("security 3")
async def test_unknown_mechanism_gets_delayed_error_with_mechanism_list(
    tmp_path: Path,
) -> None:
    delay = {"connection.failed.authentication.delay.ms": "150"}
    async with broker_with_logins(tmp_path, delay) as (broker, logins):
        client = await connect(broker)
        began = asyncio.get_running_loop().time()
        answer = await client.call(HANDSHAKE, 1, mechanism="GSSAPI")

        assert asyncio.get_running_loop().time() - began >= 0.149
        assert answer == {
            "error_code": UNSUPPORTED_SASL_MECHANISM,
            "mechanisms": ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"],
        }
        assert await all_until_closed(client) == b""
        assert logins.counts == {Result(LISTENER, NO_MECHANISM, FAILURE): 1}


@pytest.mark.proves("security 3")
async def test_metadata_request_before_login_gets_no_response(
    tmp_path: Path, lines: list[Any]
) -> None:
    async with broker_with_logins(tmp_path) as (broker, _):
        client = await connect(broker)
        client.send(METADATA, 1, topics=None)

        assert await all_until_closed(client) == b""
        assert reasons(lines) == [
            "Metadata arrived before the login: check that the client is configured for SASL"
        ]


@pytest.mark.proves("security 4")
async def test_login_after_handshake_v0_gets_a_response_only_if_the_password_is_correct(
    tmp_path: Path,
) -> None:
    async with broker_with_logins(tmp_path) as (broker, _):
        client = await connect(broker)
        assert (await client.call(HANDSHAKE, 0, mechanism="PLAIN"))["error_code"] == 0
        client.send_raw(with_length(plain_token()))
        assert await client.reader.readexactly(4) == bytes(4)
        assert await serves(client)

        wrong = await connect(broker)
        assert (await wrong.call(HANDSHAKE, 0, mechanism="PLAIN"))["error_code"] == 0
        wrong.send_raw(with_length(plain_token(password="wrong")))
        assert await all_until_closed(wrong) == b""


@pytest.mark.proves("security 4")
async def test_frame_of_invalid_size_is_refused_before_its_body_arrives(
    tmp_path: Path, lines: list[Any]
) -> None:
    async with broker_with_logins(tmp_path) as (broker, logins):
        for size in (524_289, -1, 7):
            client = await connect(broker)
            client.send_raw(struct.pack(">i", size))
            assert await all_until_closed(client) == b""
        within = await connect(broker)
        within.send_raw(struct.pack(">i", 524_288) + b"x" * 1000)
        await eventually(lambda: logins.held_bytes == 1004)
        within.close()
        await eventually(lambda: logins.held_bytes == 0)

        assert reasons(lines) == [
            "message of 524289 bytes exceeds sasl.server.max.receive.size=524288",
            "message of -1 bytes is too small for a request",
            "message of 7 bytes is too small for a request",
        ]


async def test_empty_token_after_handshake_v0_fails_the_login(
    tmp_path: Path, lines: list[Any]
) -> None:
    async with broker_with_logins(tmp_path) as (broker, _):
        client = await connect(broker)
        await client.call(HANDSHAKE, 0, mechanism="PLAIN")
        client.send_raw(with_length(b""))

        assert await all_until_closed(client) == b""
        assert reasons(lines) == ["Invalid SASL/PLAIN response: expected 3 tokens, got 1"]


@pytest.mark.parametrize(
    ("token", "said"),
    [
        (plain_token(password="wrong"), "Authentication failed: Invalid username or password"),
        (plain_token("mallory"), "Authentication failed: Invalid username or password"),
        (b"no", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
    ],
)
async def test_response_to_a_failed_login_is_delayed(
    tmp_path: Path, token: bytes, said: str
) -> None:
    delay = {"connection.failed.authentication.delay.ms": "150"}
    async with broker_with_logins(tmp_path, delay) as (broker, logins):
        client = await connect(broker)
        await client.call(HANDSHAKE, 1, mechanism="PLAIN")
        began = asyncio.get_running_loop().time()
        answer = await client.call(AUTHENTICATE, 1, auth_bytes=token)

        assert asyncio.get_running_loop().time() - began >= 0.149
        assert (answer["error_code"], answer["error_message"]) == (SASL_AUTHENTICATION_FAILED, said)
        assert await all_until_closed(client) == b""
        assert logins.counts == {Result(LISTENER, "PLAIN", FAILURE): 1}


@pytest.mark.parametrize(
    ("handshake", "said"),
    [
        (None, with_length(encode_request_header(METADATA, 1, 1, "x") + b"\xff" * 4)),
        (None, struct.pack(">i", 524_289)),
        (None, bytes.fromhex("160301020001")),
        (None, with_length(b"\xff" * 12)),
        (0, with_length(plain_token(password="wrong"))),
        (1, with_length(encode_request_header(METADATA, 9, 1, "x") + b"\0\1")),
    ],
)
async def test_failed_login_without_a_response_closes_connection_after_delay(
    tmp_path: Path, handshake: int | None, said: bytes
) -> None:
    delay = {"connection.failed.authentication.delay.ms": "150"}
    async with broker_with_logins(tmp_path, delay) as (broker, logins):
        client = await connect(broker)
        if handshake is not None:
            await client.call(HANDSHAKE, handshake, mechanism="PLAIN")
        loop = asyncio.get_running_loop()
        began = loop.time()
        client.send_raw(said)

        assert await all_until_closed(client) == b""
        assert loop.time() - began >= 0.149
        assert logins.counts.total() == 1


async def test_request_without_sasl_during_login_gets_an_error_and_closes_the_connection(
    tmp_path: Path,
) -> None:
    async with broker_with_logins(tmp_path) as (broker, _):
        client = await connect(broker)
        await client.call(HANDSHAKE, 1, mechanism="PLAIN")
        assert (await client.call(GROUPS, 0))["error_code"] == ILLEGAL_SASL_STATE
        assert await all_until_closed(client) == b""
        other = await connect(broker)
        await other.call(HANDSHAKE, 1, mechanism="PLAIN")
        other.send(METADATA, 9, topics=[])  # Metadata v9 has no field for an error.
        assert await all_until_closed(other) == b""


@pytest.mark.parametrize(
    "frame",
    [
        with_length(b"\xff" * 12),
        with_length(encode_request_header(HANDSHAKE, 9, 1, "x") + b"\0\5PLAIN"),
        with_length(encode_request_header(HANDSHAKE, 1, 1, "x") + b"\0\5PLA"),
        with_length(encode_request_header(AUTHENTICATE, 1, 1, "x") + b"\0\0\0\0"),
        with_length(struct.pack(">hhih", HANDSHAKE, 1, 1, 500)),
    ],
)
async def test_malformed_login_request_closes_the_connection_without_a_response(
    tmp_path: Path, frame: bytes
) -> None:
    async with broker_with_logins(tmp_path) as (broker, logins):
        client = await connect(broker)
        client.send_raw(frame)

        assert await all_until_closed(client) == b""
        assert logins.strangers == 0


async def test_tls_client_on_a_listener_without_tls_is_logged(
    tmp_path: Path, lines: list[Any]
) -> None:
    async with broker_with_logins(tmp_path) as (broker, _):
        client = await connect(broker)
        client.send_raw(bytes.fromhex("160301020001"))

        assert await all_until_closed(client) == b""
        assert reasons(lines) == [
            "a TLS client connected to a listener without TLS: check the client's security.protocol"
        ]


async def test_sasl_requests_get_illegal_sasl_state_on_a_plaintext_listener(tmp_path: Path) -> None:
    async with serving(tmp_path) as broker:
        client = await connect(broker)
        answer = await client.call(HANDSHAKE, 1, mechanism="PLAIN")
        assert answer == {"error_code": ILLEGAL_SASL_STATE, "mechanisms": []}
        told = await client.call(AUTHENTICATE, 1, auth_bytes=plain_token())
        assert told["error_code"] == ILLEGAL_SASL_STATE
        assert await serves(client)


async def test_connection_is_closed_when_login_takes_too_long(
    tmp_path: Path, lines: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(login_protocol, "LOGIN_S_MAX", 0.05)
    async with broker_with_logins(tmp_path) as (broker, logins):
        silent, halfway = await connect(broker), await connect(broker)
        halfway.send_raw(b"\0\0")

        assert await all_until_closed(silent) == b""
        assert await all_until_closed(halfway) == b""
        assert reasons(lines) == ["the client did not log in within 0.05 s"]
        assert (logins.strangers, logins.held_bytes) == (0, 0)


async def test_connection_is_closed_when_64_messages_do_not_complete_the_login(
    tmp_path: Path, lines: list[Any]
) -> None:
    async with broker_with_logins(tmp_path) as (broker, _):
        client = await connect(broker)
        header = struct.pack(">hhihx", VERSIONS, 99, 1, -1)
        client.send_raw((struct.pack(">i", len(header)) + header) * 100)

        await all_until_closed(client)
        assert reasons(lines) == ["the client did not log in within 64 messages"]


async def test_too_many_unfinished_logins_close_the_oldest_login_of_the_busiest_address(
    tmp_path: Path, lines: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logins, "STRANGERS_MAX", 5)
    async with broker_with_logins(tmp_path) as (broker, all_logins):
        others = [await connect(broker) for _ in range(5)]
        await eventually(lambda: all_logins.strangers == 5)
        client = await connect(broker)

        assert await all_until_closed(others[0]) == b""
        await log_in(client)
        assert await serves(client)
        assert all_logins.strangers == 4
        assert reasons(lines) == ["more than 5 connections have not logged in"]


async def test_bytes_of_unfinished_logins_are_bounded_over_all_connections(
    tmp_path: Path, lines: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logins, "STRANGERS_BYTES_MAX", 10_000)
    async with broker_with_logins(tmp_path) as (broker, all_logins):
        big, small = await connect(broker), await connect(broker)
        big.send_raw(struct.pack(">i", 500_000) + b"x" * 7000)
        await eventually(lambda: all_logins.held_bytes == 7004)
        small.send_raw(struct.pack(">i", 500_000) + b"x" * 4000)

        assert await all_until_closed(big) == b""
        await eventually(lambda: all_logins.held_bytes == 4004)
        assert reasons(lines) == [
            "unfinished logins buffer more than 10000 bytes, and this connection buffers the most"
        ]


async def test_failed_logins_delay_only_the_same_user_and_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guesses, "FAILURES_AT_ONCE", 3)
    async with broker_with_logins(tmp_path, time=frozen_clock()) as (broker, logins):

        async def guess() -> None:
            client = await connect(broker)
            assert (await log_in(client, "alice", "wrong"))["error_code"]
            client.close()

        for _ in range(4):
            await guess()
        loop = asyncio.get_running_loop()
        began = loop.time()
        client = await connect(broker)
        await log_in(client)  # A correct password is delayed too.
        assert loop.time() - began >= 0.199
        assert await serves(client)
        assert logins.guesses.wait_ms("10.0.0.1", "alice", 0) == 0
        began = loop.time()
        await log_in(await connect(broker), "bob")
        assert loop.time() - began < 0.199

        # The broker refuses a login without checking the password if the delay would be too long.
        monkeypatch.setattr(guesses, "WAIT_MS_MAX", 0)
        late = await connect(broker)
        await late.call(HANDSHAKE, 1, mechanism="PLAIN")
        late.send(AUTHENTICATE, 1, auth_bytes=plain_token())
        before = logins.counts.total()
        assert await all_until_closed(late) == b""
        assert logins.counts.total() == before, "nothing was judged"


async def test_scram_login_is_delayed_only_at_its_last_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watchdog, "HELD_NS_MAX", -1)
    async with broker_with_logins(tmp_path, scram=True, time=frozen_clock()) as (broker, logins):
        for _ in range(guesses.FAILURES_AT_ONCE + 1):
            now_ms = broker.time.now().mono_ms
            logins.guesses.judged("127.0.0.1", "alice", now_ms, is_right=False)
        waits: list[int | None] = []
        ask = logins.guesses.wait_ms

        def wait_ms(address: str, name: str, now_ms: int) -> int | None:
            waits.append(ask(address, name, now_ms))
            return waits[-1]

        logins.guesses.wait_ms = wait_ms  # type: ignore[method-assign]
        client = await connect(broker)
        done = await log_in_by_scram(client, b"alice", b"alice-secret")
        assert done["error_code"] == 0
        assert waits == [guesses.TURN_MS]
        counts = broker.watchdog.counts
        # Three messages, and the delayed check of the last message.
        assert counts["logins"] == 4
        assert await serves(client)


async def test_repeated_wrong_password_is_logged_once_a_minute(
    tmp_path: Path, lines: list[Any]
) -> None:
    async with broker_with_logins(tmp_path) as (broker, logins):
        for _ in range(5):
            client = await connect(broker)
            await log_in(client, "alice", "wrong")
            client.close()
        client = await connect(broker)
        await log_in(client, "bob", "wrong")

        assert logins.counts == {Result(LISTENER, "PLAIN", FAILURE): 6}
        told = [line for line in lines if line["event"] == "login failed"]
        assert [line["reason"] for line in told] == [
            "wrong password for user 'alice'",
            "wrong password for user 'bob'",
        ]
        assert told[0]["mechanism"] == "PLAIN"
        assert told[0]["client_id"] == "tester"
        assert told[0]["peer"].startswith("127.0.0.1:")
        assert told[0]["listener"] == LISTENER


async def test_300_unfinished_logins_do_not_delay_other_connections(tmp_path: Path) -> None:
    async with broker_with_logins(tmp_path) as (broker, logins):
        settled = await connect(broker)
        await log_in(settled)
        crowd = [await connect(broker) for _ in range(300)]
        for stranger in crowd:
            stranger.send(HANDSHAKE, 1, mechanism="PLAIN")
            stranger.send_raw(struct.pack(">i", 400_000) + b"x" * 2000)
        waits = []
        loop, cores = asyncio.get_running_loop(), CoreWaits()
        for _ in range(20):
            began, waited_s = loop.time(), cores.seconds()
            assert await serves(settled)
            waits.append(loop.time() - began - (cores.seconds() - waited_s))
        await eventually(lambda: logins.strangers == 300)
        for stranger in crowd:
            stranger.close()
        await eventually(lambda: logins.strangers == 0)
        assert max(waits) < 0.05


async def test_start_warns_of_plain_without_tls_and_of_an_ignored_login_module(
    tmp_path: Path, lines: list[Any]
) -> None:
    unused = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_x="planted";'
    async with broker_with_logins(tmp_path, {"sasl.jaas.config": unused}):
        pass
    told = [line["event"] for line in lines if line["log_level"] == "warning"]
    assert "PLAIN passwords are sent without TLS" in told
    assert "login module ignored: sasl.jaas.config needs a mechanism prefix" in told
    assert "planted" not in str(lines)
