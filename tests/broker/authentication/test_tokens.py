"""Tests delegation tokens of a standalone broker: requests, logins and expiry."""

from __future__ import annotations

import asyncio
import json
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from broker.authentication import tokens
from broker.authentication.token_file import NAME
from broker.broker import Broker
from broker.config.authorizer_rules import STANDARD
from broker.topics.registry import BadDirectory
from protocol.errors import (
    DELEGATION_TOKEN_AUTH_DISABLED,
    DELEGATION_TOKEN_AUTHORIZATION_FAILED,
    DELEGATION_TOKEN_EXPIRED,
    DELEGATION_TOKEN_NOT_FOUND,
    DELEGATION_TOKEN_OWNER_MISMATCH,
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
    INVALID_PRINCIPAL_TYPE,
    NONE,
    POLICY_VIOLATION,
    SASL_AUTHENTICATION_FAILED,
    UNKNOWN_SERVER_ERROR,
)
from security.acls.model import AclEntry, Operation, Pattern, PatternType, Permission, ResourceType
from security.credentials import ScramMechanism
from security.principal import user
from security.sasl.client_side import Credentials, client_login
from tests.broker.authentication.letting_in import AUTHENTICATE, GROUPS, HANDSHAKE, SETTINGS, log_in
from tests.broker.edge import Client, eventually
from tests.broker.mock_time import MockTime
from tests.broker.serving import serving
from tests.simulated_files import UNBOUNDED, SimulatedFiles

CREATE, RENEW, EXPIRE, DESCRIBE = 38, 39, 40, 41
HOUR_MS, DAY_MS = 3_600_000, 86_400_000
SECRET = {"delegation.token.secret.key": "a key of the tests"}
ALICE, BOB = user("alice"), user("bob")
MECHANISM = "SCRAM-SHA-512"


@asynccontextmanager
async def tokens_at(
    directory: Path | str, fs: Any = None, time: MockTime | None = None, **more: str
) -> AsyncIterator[Broker]:
    """Yields a broker with delegation tokens and a second listener with PLAINTEXT."""
    settings = {**SETTINGS, **SECRET, **{name.replace("_", "."): it for name, it in more.items()}}
    settings["listeners"] += ",PLAINTEXT://127.0.0.1:0"
    async with serving(directory, settings, fs, time or MockTime()) as broker:
        yield broker


async def connect_to(broker: Broker, listener: int = 0) -> Client:
    return await Client.connect(broker.sockets.addresses()[listener][1])


async def logged_in(broker: Broker, name: str = "alice") -> Client:
    client = await connect_to(broker)
    assert not (await log_in(client, name))["error_code"]
    return client


async def log_in_by_token(
    broker: Broker, token: dict[str, Any], mechanism: str = MECHANISM, secret: bytes = b""
) -> tuple[Client, dict[str, Any]]:
    """Logs in with a delegation token. Returns the client and the response to the last message."""
    client = await connect_to(broker)
    proof = b64encode(secret or token["hmac"]).decode()
    login = client_login(mechanism, Credentials(token["token_id"], proof, by_token=True), "nonce")
    await client.call(HANDSHAKE, 1, mechanism=mechanism)
    message: bytes | None = login.first()
    while message is not None:
        answer = await client.call(AUTHENTICATE, 2, auth_bytes=message)
        if answer["error_code"]:
            return client, answer
        message = login.answer(answer["auth_bytes"])
    return client, answer


async def created(
    client: Client, *renewers: str, owner: str | None = None, lifetime_ms: int = -1, **more: Any
) -> dict[str, Any]:
    named = [{"principal_type": "User", "principal_name": each} for each in renewers]
    asked = {
        "owner_principal_type": owner and "User",
        "owner_principal_name": owner,
        "renewers": named,
        "max_lifetime_ms": lifetime_ms,
    }
    return await client.call(CREATE, 3, **{**asked, **more})


async def renewed(client: Client, proof: bytes, period_ms: int = -1) -> tuple[int, int]:
    answer = await client.call(RENEW, 2, hmac=proof, renew_period_ms=period_ms)
    return answer["error_code"], answer["expiry_timestamp_ms"]


async def ended(client: Client, proof: bytes, period_ms: int = -1) -> tuple[int, int]:
    answer = await client.call(EXPIRE, 2, hmac=proof, expiry_time_period_ms=period_ms)
    return answer["error_code"], answer["expiry_timestamp_ms"]


async def described_ids(client: Client, *owners: str) -> list[str]:
    """Returns the token ids in a DescribeDelegationToken response for ``owners``, or for all owners
    if none are given."""
    named = [{"principal_type": "User", "principal_name": each} for each in owners] or None
    answer = await client.call(DESCRIBE, 3, owners=named)
    assert not answer["error_code"]
    return [each["token_id"] for each in answer["tokens"]]


async def test_number_of_tokens_is_bounded_per_owner_and_in_total(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokens, "OWNED_MAX", 2)
    monkeypatch.setattr(tokens, "TOKENS_MAX", 3)
    with capture_logs() as lines:
        async with tokens_at(tmp_path) as broker:
            alice, other = await logged_in(broker), await logged_in(broker)
            bob = await logged_in(broker, "bob")
            first = await created(alice)
            # The second of two simultaneous requests exceeds the bound.
            codes = await asyncio.gather(created(alice), created(other))
            assert sorted(each["error_code"] for each in codes) == [NONE, POLICY_VIOLATION]
            assert (await created(bob))["error_code"] == NONE
            assert (await created(bob))["error_code"] == POLICY_VIOLATION
            assert await renewed(alice, first["hmac"]) != POLICY_VIOLATION
            await ended(alice, first["hmac"])
            assert (await created(bob))["error_code"] == NONE
            assert (await created(bob, owner="alice"))["error_code"] == POLICY_VIOLATION
        async with tokens_at(tmp_path) as broker:  # Loaded tokens count after a restart.
            bob = await logged_in(broker, "bob")
            assert (await created(bob))["error_code"] == POLICY_VIOLATION
    told = [line for line in lines if line["event"] == "delegation token not created"]
    assert [(line["owner"], line["reason"]) for line in told] == [
        # The broker logs a line once a minute, and the clock is frozen.
        ("User:alice", "the owner already has 2 tokens"),
        ("User:bob", "the owner already has 2 tokens"),
    ]


@pytest.mark.parametrize(("bytes_more", "error_code"), [(0, NONE), (1, POLICY_VIOLATION)])
async def test_length_of_renewer_and_owner_names_of_a_token_is_bounded(
    tmp_path: Path, bytes_more: int, error_code: int
) -> None:
    async with tokens_at(tmp_path) as broker:
        alice = await logged_in(broker)
        left = tokens.NAMES_BYTES_MAX - len("User:alice") - len("User:") + bytes_more
        made = await created(alice, "\u00e9" * (left // 2) + "x" * (left % 2))
        assert made["error_code"] == error_code


async def test_token_is_created_and_described(tmp_path: Path) -> None:
    time = MockTime()
    async with tokens_at(tmp_path, time=time) as broker:
        client = await logged_in(broker)
        made = await created(client, "bob")
        assert made == {
            "error_code": NONE,
            "principal_type": "User",
            "principal_name": "alice",
            "token_requester_principal_type": "User",
            "token_requester_principal_name": "alice",
            "issue_timestamp_ms": time.wall_ms,
            "expiry_timestamp_ms": time.wall_ms + DAY_MS,
            "max_timestamp_ms": time.wall_ms + 7 * DAY_MS,
            "token_id": made["token_id"],
            "hmac": made["hmac"],
            "throttle_time_ms": 0,
        }
        assert (len(made["token_id"]), len(made["hmac"])) == (22, 64)
        [told] = (await client.call(DESCRIBE, 3, owners=None))["tokens"]
        assert told["hmac"] == made["hmac"]
        assert told["expiry_timestamp"] == made["expiry_timestamp_ms"]
        assert told["renewers"] == [{"principal_type": "User", "principal_name": "bob"}]
        old = {"renewers": [], "max_lifetime_ms": 1000}
        short = await client.call(CREATE, 1, **old)
        assert short["expiry_timestamp_ms"] == short["max_timestamp_ms"] == time.wall_ms + 1000
        assert await described_ids(client, "bob") == [made["token_id"]]
        assert (await client.call(DESCRIBE, 3, owners=[]))["tokens"] == []


@pytest.mark.parametrize("mechanism", [each.mechanism for each in ScramMechanism])
async def test_client_with_a_token_has_the_principal_of_the_owner_until_the_token_expires(
    tmp_path: Path, mechanism: str
) -> None:
    time = MockTime()
    async with tokens_at(tmp_path, time=time) as broker:
        made = await created(await logged_in(broker), lifetime_ms=HOUR_MS)
        time.move(1_000)
        client, answer = await log_in_by_token(broker, made, mechanism)
        assert answer["error_code"] == NONE
        assert answer["session_lifetime_ms"] == HOUR_MS - 1_000
        connection = next(each for each in broker.server.connections if each.login.by_token)
        assert connection.principal == ALICE
        assert connection.login.mechanism == mechanism
        assert not (await client.call(GROUPS, 0))["error_code"]

        _, wrong = await log_in_by_token(broker, made, mechanism, b"x" * 64)
        assert wrong["error_code"] == SASL_AUTHENTICATION_FAILED
        time.move(HOUR_MS)
        _, late = await log_in_by_token(broker, made, mechanism)
        assert late["error_code"] == SASL_AUTHENTICATION_FAILED


async def test_delegation_token_id_is_not_accepted_as_a_user_name(tmp_path: Path) -> None:
    async with tokens_at(tmp_path) as broker:
        made = await created(await logged_in(broker))
        client = await connect_to(broker)
        proof = b64encode(made["hmac"]).decode()
        login = client_login(MECHANISM, Credentials(made["token_id"], proof), "nonce")
        await client.call(HANDSHAKE, 1, mechanism=MECHANISM)
        challenge = await client.call(AUTHENTICATE, 2, auth_bytes=login.first())
        final = login.answer(challenge["auth_bytes"])
        answer = await client.call(AUTHENTICATE, 2, auth_bytes=final)
        assert answer["error_code"] == SASL_AUTHENTICATION_FAILED


async def test_owner_and_renewers_can_renew_and_expire_a_token(tmp_path: Path) -> None:
    time = MockTime()
    async with tokens_at(tmp_path, time=time) as broker:
        alice, bob = await logged_in(broker), await logged_in(broker, "bob")
        proof = (await created(alice, "bob"))["hmac"]
        time.move(HOUR_MS)
        assert await renewed(bob, proof) == (NONE, time.wall_ms + DAY_MS)
        assert await renewed(alice, proof, 1000) == (NONE, time.wall_ms + 1000)
        assert await ended(bob, proof, 500) == (NONE, time.wall_ms + 500)
        others = (await created(alice, owner="bob"))["hmac"]
        assert (await renewed(alice, others))[0] == DELEGATION_TOKEN_OWNER_MISMATCH
        assert (await ended(alice, others))[0] == DELEGATION_TOKEN_OWNER_MISMATCH
        assert await ended(bob, others) == (NONE, time.wall_ms)
        assert await ended(bob, others) == (DELEGATION_TOKEN_NOT_FOUND, 0)
        assert await renewed(bob, b"") == (DELEGATION_TOKEN_NOT_FOUND, 0)
        time.move(501)
        assert await renewed(alice, proof) == (DELEGATION_TOKEN_EXPIRED, 0)
        assert await ended(alice, proof, 1) == (DELEGATION_TOKEN_EXPIRED, 0)
        assert await ended(alice, proof) == (NONE, time.wall_ms)
        assert await described_ids(alice) == []


async def test_token_requests_of_anonymous_clients_and_of_token_logins_are_refused(
    tmp_path: Path,
) -> None:
    async with tokens_at(tmp_path) as broker:
        made = await created(await logged_in(broker))
        of_token, _ = await log_in_by_token(broker, made)
        for client in (of_token, await connect_to(broker, 1)):
            refused = DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
            answer = await created(client)
            assert (answer["error_code"], answer["token_id"], answer["hmac"]) == (refused, "", b"")
            assert await renewed(client, made["hmac"]) == (refused, -1)
            assert await ended(client, made["hmac"]) == (refused, -1)
            told = await client.call(DESCRIBE, 3, owners=None)
            assert (told["error_code"], told["tokens"]) == (refused, [])


async def test_token_requests_are_refused_when_no_secret_key_is_configured(tmp_path: Path) -> None:
    async with tokens_at(tmp_path, delegation_token_secret_key="") as broker:
        client = await logged_in(broker)
        assert (await created(client))["error_code"] == DELEGATION_TOKEN_AUTH_DISABLED
        assert await renewed(client, b"") == (DELEGATION_TOKEN_AUTH_DISABLED, 0)
        assert await ended(client, b"") == (DELEGATION_TOKEN_AUTH_DISABLED, 0)
        told = await client.call(DESCRIBE, 3, owners=None)
        assert told["error_code"] == DELEGATION_TOKEN_AUTH_DISABLED
        _, answer = await log_in_by_token(broker, {"token_id": "none", "hmac": b"x"})
        assert answer["error_code"] == SASL_AUTHENTICATION_FAILED
    older = {"delegation_token_secret_key": "", "delegation_token_master_key": "older"}
    async with tokens_at(tmp_path, **older) as broker:
        assert not (await created(await logged_in(broker)))["error_code"]


@pytest.mark.parametrize("group", ["owner", "renewer"])
async def test_token_request_for_a_group_principal_is_refused(tmp_path: Path, group: str) -> None:
    async with tokens_at(tmp_path) as broker:
        client = await logged_in(broker)
        other = {"principal_type": "Group", "principal_name": "g"}
        owner = {"owner_principal_type": "Group", "owner_principal_name": "alice"}
        asked: dict[str, Any] = owner if group == "owner" else {"renewers": [other]}
        assert (await created(client, **asked))["error_code"] == INVALID_PRINCIPAL_TYPE
        assert await described_ids(client) == []


def entry(operation: Operation, kind: ResourceType, name: str) -> AclEntry:
    pattern = Pattern(kind, name, PatternType.LITERAL)
    return AclEntry(pattern, str(BOB), "*", operation, Permission.ALLOW)


async def test_delegation_tokens_of_other_owners_need_acls(tmp_path: Path) -> None:
    async with tokens_at(tmp_path, authorizer_class_name=STANDARD) as broker:
        alice, bob = await logged_in(broker), await logged_in(broker, "bob")
        hers = (await created(alice))["token_id"]
        assert await described_ids(bob) == []
        assert not [each for each in broker.secured.audit.denials() if "Describe" in each.api]
        answer = await created(bob, owner="alice")
        assert answer["error_code"] == DELEGATION_TOKEN_AUTHORIZATION_FAILED
        assert [each.name for each in broker.secured.audit.denials()] == [str(ALICE)]
        assert broker.secured.acls is not None
        index = broker.secured.acls.index
        index.add(entry(Operation.CREATE_TOKENS, ResourceType.USER, str(ALICE)))
        second = await created(bob, owner="alice")
        assert (second["principal_name"], second["token_requester_principal_name"]) == (
            "alice", "bob",
        )  # fmt: skip
        assert await described_ids(bob) == [second["token_id"]]
        of_token = entry(Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN, hers)
        of_owner = entry(Operation.DESCRIBE_TOKENS, ResourceType.USER, str(ALICE))
        for each in (of_token, of_owner):
            index.add(each)
            assert sorted(await described_ids(bob)) == sorted([hers, second["token_id"]])
            index.remove(each)
        assert await described_ids(bob, "alice") == [second["token_id"]]


async def test_expired_tokens_are_removed(tmp_path: Path) -> None:
    time = MockTime()
    check = {"delegation_token_expiry_check_interval_ms": "1"}
    async with tokens_at(tmp_path, time=time, **check) as broker:
        client = await logged_in(broker)
        await created(client, lifetime_ms=HOUR_MS)
        lives = (await created(client))["token_id"]
        assert len(await described_ids(client)) == 2
        tokens = broker.secured.tokens
        assert tokens is not None
        time.move(HOUR_MS)
        await eventually(lambda: len(tokens) == 1)
        assert await described_ids(client) == [lives]
    [kept] = json.loads((tmp_path / NAME).read_text())["tokens"]
    assert kept["tokenId"] == lives


async def test_tokens_survive_a_restart_and_their_file_has_no_hmac(tmp_path: Path) -> None:
    async with tokens_at(tmp_path) as broker:
        client = await logged_in(broker)
        made = await created(client, "bob", "")
        told = await client.call(DESCRIBE, 3, owners=None)
    path = tmp_path / NAME
    assert path.stat().st_mode & 0o077 == 0
    assert b64encode(made["hmac"]).decode() not in path.read_text()
    async with tokens_at(tmp_path) as broker:
        assert await (await logged_in(broker)).call(DESCRIBE, 3, owners=None) == told
        _, answer = await log_in_by_token(broker, made)
        assert not answer["error_code"]
    async with tokens_at(tmp_path, delegation_token_secret_key="another") as broker:
        _, answer = await log_in_by_token(broker, made)
        assert answer["error_code"] == SASL_AUTHENTICATION_FAILED


async def test_login_with_a_token_uses_the_stored_scram_credential(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with tokens_at(tmp_path) as broker:
        made = await created(await logged_in(broker))
        assert broker.secured.tokens is not None
        before = broker.secured.tokens.found(ScramMechanism.SHA_512, made["token_id"])

        def hashed(*_: object) -> None:
            raise AssertionError("a credential is made anew")

        monkeypatch.setattr("broker.authentication.tokens.credential_of", hashed)
        _, answer = await log_in_by_token(broker, made)
        assert not answer["error_code"]
        assert not (await renewed(await logged_in(broker), made["hmac"]))[0]
        assert broker.secured.tokens.found(ScramMechanism.SHA_512, made["token_id"]) == before


async def test_tokens_are_unchanged_when_the_disk_is_full() -> None:
    fs = SimulatedFiles()
    async with tokens_at("/data", fs) as broker:
        client = await logged_in(broker)
        made = await created(client)
        fs.capacity_bytes = 0
        assert (await created(client))["error_code"] == UNKNOWN_SERVER_ERROR
        assert (await ended(client, made["hmac"]))[0] == UNKNOWN_SERVER_ERROR
        assert await described_ids(client) == [made["token_id"]]
        fs.capacity_bytes = UNBOUNDED
        assert not (await ended(client, made["hmac"]))[0]


@pytest.mark.parametrize(
    "text", ['{"version": 1, "tokens": [{}]}', '{"version": 1, "tokens": 5}', '{"version": 2}', "x"]
)
async def test_start_fails_when_token_file_is_unreadable(tmp_path: Path, text: str) -> None:
    (tmp_path / NAME).write_text(text)
    with pytest.raises(BadDirectory, match=r"tokens\.json (is damaged|has version 2)"):
        async with tokens_at(tmp_path):
            pass
