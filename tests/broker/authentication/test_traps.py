"""Tests SCRAM messages that a login accepts or refuses, and outputs that must not contain
secrets."""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
from structlog.testing import capture_logs

from broker.metrics.exposition import render
from broker.net.clients.failure_lines import REASON_SHOWN
from protocol.errors import SASL_AUTHENTICATION_FAILED
from tests.broker.authentication.letting_in import (
    AUTHENTICATE,
    HANDSHAKE,
    SETTINGS,
    SHA,
    add_scram_user,
    broker_with_logins,
    connect,
    cut_requests,
    log_in,
    log_in_by_scram,
    plain_token,
    send_cut,
)

DESCRIBE_CONFIGS, DESCRIBE_USERS, ALTER_USERS = 32, 50, 51


@pytest.fixture(autouse=True)
def lines() -> Iterator[list[Any]]:
    structlog.reset_defaults()
    with capture_logs() as found:
        yield found


@pytest.mark.proves("security 7")
async def test_nonce_that_only_ends_with_the_server_nonce_is_refused(
    tmp_path: Path, lines: list[Any]
) -> None:
    async with broker_with_logins(tmp_path, scram=True) as (broker, _):
        good = await log_in_by_scram(await connect(broker), b"alice", b"alice-secret")
        assert good["error_code"] == 0
        assert good["auth_bytes"].startswith(b"v=")
        answer = await log_in_by_scram(await connect(broker), b"alice", b"alice-secret", nonce=b"x")
        assert answer["error_code"] == SASL_AUTHENTICATION_FAILED
        assert "librdkafka before 2.6.1 sends its nonce twice" in str(lines)
        assert answer["error_message"] == (
            "Authentication failed during authentication due to invalid credentials with SASL"
            " mechanism SCRAM-SHA-256"
        )


@pytest.mark.proves("security 7")
async def test_scram_unescapes_user_name_and_uses_raw_password_bytes(
    tmp_path: Path,
) -> None:
    async with broker_with_logins(tmp_path) as (broker, _):
        assert broker.secured.users is not None
        # SASLprep would remove U+00AD and change U+2168 to IX. The broker does not apply SASLprep.
        await add_scram_user(broker.secured.users, "a,b=c", "p\u00adw\u2168", SHA.mechanism)
        right, prepared = "p\u00adw\u2168".encode(), b"pwIX"
        client = await connect(broker)
        assert (await log_in_by_scram(client, b"a=2Cb=3Dc", right))["error_code"] == 0
        assert (await log_in_by_scram(await connect(broker), b"a=2Cb=3Dc", prepared))["error_code"]
        assert (await log_in_by_scram(await connect(broker), b"a,b=c", right))["error_code"]
        assert "User:a,b=c" in {str(each.principal) for each in broker.server.connections}
        client.close()


@pytest.mark.proves("security 7")
async def test_scram_responses_do_not_reveal_whether_a_user_exists(tmp_path: Path) -> None:
    async with broker_with_logins(tmp_path, scram=True, iterations=8192) as (broker, _):
        shown: dict[bytes, set[tuple[bytes, bytes]]] = {}
        names = [b"alice", b"bob", *(b"nobody-%d" % number for number in range(20))]
        for name in names * 2:
            client = await connect(broker)
            await client.call(HANDSHAKE, 1, mechanism=SHA.mechanism)
            first = await client.call(AUTHENTICATE, 1, auth_bytes=b"n,,n=" + name + b",r=abc")
            assert first["error_code"] == 0
            _, salt, iterations = (part[2:] for part in first["auth_bytes"].split(b","))
            shown.setdefault(name, set()).add((b64decode(salt), iterations))
            client.close()
        assert {len(each) for each in shown.values()} == {1}, "each name shows always the same"
        salts = {salt for each in shown.values() for salt, _ in each}
        assert len(salts) == len(names) - 1, "the tests give alice and bob the same"
        assert all(re.fullmatch(b"[0-9a-z]{20,26}", salt) for salt in salts)
        assert {iterations for each in shown.values() for _, iterations in each} == {b"8192"}
        told = [
            await log_in_by_scram(await connect(broker), name, b"no")
            for name in (b"alice", b"mallory")
        ]
        assert told[0] == told[1]


@pytest.mark.proves("security 8")
async def test_secrets_are_absent_from_logs_metrics_responses_and_files(
    tmp_path: Path, lines: list[Any]
) -> None:
    jaas = SETTINGS["plain.sasl.jaas.config"].replace("alice-secret", "planted-plain")
    async with broker_with_logins(tmp_path, {"plain.sasl.jaas.config": jaas}) as (broker, logins):
        client, wrong = await connect(broker), await connect(broker)
        await log_in(client, "alice", "planted-plain")
        await log_in(wrong, "alice", "planted-wrong")
        salted = b"planted-salted-password-of-32-by"
        upsertion = {
            "name": "zoe",
            "mechanism": 1,
            "iterations": 4096,
            "salt": b"planted-salt",
            "salted_password": salted,
        }
        await client.call(ALTER_USERS, 0, deletions=[], upsertions=[upsertion])
        await client.call(ALTER_USERS, 0, deletions=[], upsertions=[upsertion, upsertion])
        asked = {"deletions": [], "upsertions": [upsertion]}
        for request in cut_requests(salted, ALTER_USERS, 0, **asked):
            broken = await connect(broker)
            await log_in(broken, "alice", "planted-plain")
            await send_cut(broken, request)
        for password in ("planted-plain", "planted-wrong"):
            secret = plain_token("alice", password)
            for request in cut_requests(secret, AUTHENTICATE, 1, auth_bytes=secret):
                broken = await connect(broker)
                await broken.call(HANDSHAKE, 1, mechanism="PLAIN")
                await send_cut(broken, request)
        nonsense = await connect(broker)
        await nonsense.call(HANDSHAKE, 1, mechanism="PLAIN")
        nonsense.send(AUTHENTICATE, 1, auth_bytes=b"planted-token\xff")
        await nonsense.reader.read()
        resources = [{"resource_type": 4, "resource_name": "1", "configuration_keys": None}]
        shown = [
            await client.call(DESCRIBE_CONFIGS, 4, resources=resources),
            await client.call(DESCRIBE_USERS, 0, users=None),
            b"".join([part async for part in render(broker.sources)]),
            lines,
            logins.counts,
            broker.secured.users,
            [vars(each) for each in (logins, broker.secured.users)],
            broker.listeners[0].before_login,
        ]
    files = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    text = "\n".join(map(repr, [*shown, *files]))

    assert "iterations" in text
    told = [f"{line.get('reason', '')} {line.get('error', '')}" for line in lines]
    for name in ("AlterUserScramCredentials", "SaslAuthenticate"):
        assert any(f"{name} request" in each for each in told), "cut requests are told of"
    for secret in (b"planted-plain", b"planted-wrong", b"planted-token", salted):
        # The client sent this part of the secret in a truncated frame.
        part = secret[: len(secret) // 3 * 3 - 3]
        assert part.decode() not in text, secret
        assert b64encode(part).decode() not in text, secret
    assert "planted-salt" not in "\n".join(map(repr, shown))


async def test_long_user_name_is_truncated_in_the_log(tmp_path: Path, lines: list[Any]) -> None:
    async with broker_with_logins(tmp_path, scram=True) as (broker, _):
        answer = await log_in_by_scram(await connect(broker), b"n" * 4000, b"x")
        assert answer["error_code"] == SASL_AUTHENTICATION_FAILED
        (line,) = [each for each in lines if each["event"] == "login failed"]
        assert line["reason"] == "user '" + "n" * (REASON_SHOWN - 6)
