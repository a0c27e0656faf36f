"""Tests that no response to a principal without rights depends on which objects exist, and that no
request of such a principal changes an object.

Two brokers with Kafka's authorizer receive the same requests. The first broker has the topics,
groups, transactional ids, ACLs, users, quotas, tokens and settings that the requests name; the
second broker has none of them. A principal without rights must get the same bytes from both
brokers. Only ApiVersions is answered to every client. Metadata and DescribeCluster list the
brokers, as in Kafka. For an administrator each API must return or change an object. Otherwise the
test would miss a handler that does not call the authorizer.
"""

from __future__ import annotations

import asyncio
import struct
from pathlib import Path
from typing import Any

import pytest

from broker.broker import Broker
from protocol.headers import decode_response_header
from protocol.messages.create_delegation_token import API as CREATE_DELEGATION_TOKEN
from protocol.messages.describe_cluster import API as DESCRIBE_CLUSTER
from protocol.messages.describe_delegation_token import API as DESCRIBE_DELEGATION_TOKEN
from protocol.messages.metadata import API as METADATA
from protocol.schema import Api
from tests.broker.apis.authorization.filled import (
    ADMIN,
    REQUESTS,
    STRANGER,
    Request,
    answers,
    fill,
    protected_broker,
    state,
)
from tests.broker.authentication.letting_in import broker_with_logins, port_of
from tests.broker.every_request import EVERY, asked
from tests.broker.serving import asked as asked_of
from tests.wire import Wire

pytestmark = pytest.mark.proves("security 27")

OF_BROKERS = ("brokers", "cluster_id", "controller_id")
"""Response fields that identify the brokers and the cluster."""
SAID_OF_BROKERS = (METADATA.key, DESCRIBE_CLUSTER.key)
OF_A_TOKEN = (
    "token_id", "hmac", "issue_timestamp_ms", "expiry_timestamp_ms", "max_timestamp_ms",
    "issue_timestamp", "expiry_timestamp", "max_timestamp",
)  # fmt: skip
"""Fields that differ between any two delegation tokens."""
SAY_NOTHING = {
    "AlterReplicaLogDirs": "a strange directory is an error before its replicas are looked up",
    "ApiVersions": "it is answered to everybody",
    "DescribeCluster": "beside the brokers it has nothing",
    "ExpireDelegationToken": "nobody has the token's secret",
    "ListPartitionReassignments": "a broker alone moves nothing",
    "RenewDelegationToken": "nobody has the token's secret",
    "SaslAuthenticate": "clients send this request to authenticate",
    "SaslHandshake": "clients send this request to authenticate",
    "ShareAcknowledge": "no share session is open",
    "ShareFetch": "the requests name topics by an unknown id",
    "UpdateFeatures": "settings determine the feature levels of a standalone broker",
}
"""By API: the reason why its responses never depend on existing objects."""


async def _answers(broker: Broker, user: str, asked: list[Request]) -> list[Any]:
    found = await asyncio.to_thread(answers, port_of(broker), user, asked)
    for (api, _, _), answer in zip(asked, found, strict=True):
        if answer is None:
            continue
        if api.key in SAID_OF_BROKERS:
            for field in OF_BROKERS:
                answer.pop(field, None)
        if api.key == CREATE_DELEGATION_TOKEN.key:
            _remove_token_identity(answer)
        if api.key == DESCRIBE_DELEGATION_TOKEN.key:
            for token in answer["tokens"]:
                _remove_token_identity(token)
    return found


def _remove_token_identity(token: dict[str, Any]) -> None:
    """Removes the unique fields of a delegation token that the user STRANGER created."""
    if token["principal_name"] == STRANGER:
        for field in OF_A_TOKEN:
            token.pop(field, None)


async def test_denied_responses_do_not_reveal_whether_objects_exist(tmp_path: Path) -> None:
    async with (
        protected_broker(tmp_path / "full") as full,
        protected_broker(tmp_path / "empty") as empty,
    ):
        await fill(full)
        before = state(full), state(empty)
        there = await _answers(full, STRANGER, REQUESTS)
        nothing = await _answers(empty, STRANGER, REQUESTS)
        assert (state(full), state(empty)) == before
    told = [
        (api.name, version, value, one, other)
        for (api, version, value), one, other in zip(REQUESTS, there, nothing, strict=True)
        if one != other
    ]
    assert told == []
    assert None not in there, "a connection was closed"
    assert {(api, version) for api, version, _ in REQUESTS} == set(EVERY)


async def test_administrator_can_read_or_change_an_object_with_each_api(tmp_path: Path) -> None:
    quiet = set()
    async with protected_broker(tmp_path / "full") as full:
        for api in {api.key: api for api, _ in EVERY}.values():
            await fill(full)
            some = [each for each in REQUESTS if each[0] is api]
            before = state(full)
            there = await _answers(full, ADMIN, some)
            if state(full) != before:
                continue
            async with protected_broker(tmp_path / api.name) as empty:
                if there == await _answers(empty, ADMIN, some):
                    quiet.add(api.name)
    assert quiet == set(SAY_NOTHING)


async def test_only_api_versions_and_sasl_handshake_are_answered_before_a_login(
    tmp_path: Path,
) -> None:

    def ask(wire: Wire) -> set[str]:
        answered = set()
        for api, version in EVERY:
            with Wire(wire.socket.getpeername()[1]) as connection:
                connection.send(api.name, version, asked(api, version))
                if _is_answered(connection, api, version):
                    answered.add(api.name)
        return answered

    async with broker_with_logins(tmp_path) as (broker, _):
        answered = await asked_of(broker, ask)
    assert answered == {"ApiVersions", "SaslHandshake"}


def _is_answered(connection: Wire, api: Api, version: int) -> bool:
    head = connection.socket.recv(4)
    if not head:
        return False
    size = struct.unpack(">i", head)[0]
    frame = b""
    while len(frame) < size:
        frame += connection.socket.recv(size - len(frame))
    decode_response_header(api.key, version, frame)
    return True
