"""A stranger learns nothing: no API answers by what is there, and none leaves anything behind.

Two brokers with a real authorizer are asked the same, request by request: one has the topics,
groups, transactional ids, entries, users, quotas, tokens and settings that the requests name, the
other has nothing. To somebody without any right both must say the same, byte for byte. Only
ApiVersions is answered to everybody; and Metadata and DescribeCluster name the brokers, as Kafka's
do. To an administrator each API must say or do something: else the search would miss a
handler that does not ask.
"""

from __future__ import annotations

import asyncio
import struct
from pathlib import Path
from typing import Any

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

OF_BROKERS = ("brokers", "cluster_id", "controller_id")
"""What says which brokers there are, and of which cluster."""
SAID_OF_BROKERS = (METADATA.key, DESCRIBE_CLUSTER.key)
OF_A_TOKEN = (
    "token_id", "hmac", "issue_timestamp_ms", "expiry_timestamp_ms", "max_timestamp_ms",
    "issue_timestamp", "expiry_timestamp", "max_timestamp",
)  # fmt: skip
"""What differs between any two tokens."""
SAY_NOTHING = {
    "AlterReplicaLogDirs": "a strange directory is an error before its replicas are looked up",
    "ApiVersions": "it is answered to everybody",
    "DescribeCluster": "beside the brokers it has nothing",
    "ExpireDelegationToken": "nobody has the token's secret",
    "ListPartitionReassignments": "a broker alone moves nothing",
    "RenewDelegationToken": "nobody has the token's secret",
    "SaslAuthenticate": "it is part of authentication",
    "SaslHandshake": "it is part of authentication",
}
"""APIs by which nothing can be found, whoever asks."""


async def _told(broker: Broker, user: str, asked: list[Request]) -> list[Any]:
    found = await asyncio.to_thread(answers, port_of(broker), user, asked)
    for (api, _, _), answer in zip(asked, found, strict=True):
        if answer is None:
            continue
        if api.key in SAID_OF_BROKERS:
            for field in OF_BROKERS:
                answer.pop(field, None)
        if api.key == CREATE_DELEGATION_TOKEN.key:
            _like_any_other(answer)
        if api.key == DESCRIBE_DELEGATION_TOKEN.key:
            for token in answer["tokens"]:
                _like_any_other(token)
    return found


def _like_any_other(token: dict[str, Any]) -> None:
    """A token of the stranger's own, which anybody may have."""
    if token["principal_name"] == STRANGER:
        for field in OF_A_TOKEN:
            token.pop(field, None)


async def test_no_api_tells_a_stranger_what_is_there(tmp_path: Path) -> None:
    async with (
        protected_broker(tmp_path / "full") as full,
        protected_broker(tmp_path / "empty") as empty,
    ):
        await fill(full)
        before = state(full), state(empty)
        there = await _told(full, STRANGER, REQUESTS)
        nothing = await _told(empty, STRANGER, REQUESTS)
        assert (state(full), state(empty)) == before
    told = [
        (api.name, version, value, one, other)
        for (api, version, value), one, other in zip(REQUESTS, there, nothing, strict=True)
        if one != other
    ]
    assert told == []
    assert None not in there, "a connection was closed"
    assert {(api, version) for api, version, _ in REQUESTS} == set(EVERY)


async def test_each_api_tells_or_does_something_for_who_may(tmp_path: Path) -> None:
    quiet = set()
    async with protected_broker(tmp_path / "full") as full:
        for api in {api.key: api for api, _ in EVERY}.values():
            await fill(full)
            some = [each for each in REQUESTS if each[0] is api]
            before = state(full)
            there = await _told(full, ADMIN, some)
            if state(full) != before:
                continue
            async with protected_broker(tmp_path / api.name) as empty:
                if there == await _told(empty, ADMIN, some):
                    quiet.add(api.name)
    assert quiet == set(SAY_NOTHING)


async def test_before_a_login_only_api_versions_and_the_login_are_answered(tmp_path: Path) -> None:
    """A peer that has said nothing yet is not even told that it lacks a right."""

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
