"""Tests that each API checks exactly the rights that the API table and docs/use/coverage.md list.

Several users send each request, from a user without rights to an administrator. One user alone
would not show all checks, because a handler stops at the first missing right.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.apis.tables.standalone import SERVED
from broker.authorizer import acl_authorizer
from broker.authorizer.acl_authorizer import AclAuthorizer
from broker.net.required_acls import AnyOf, Each, EachResource, RequiredAcl, Rights
from protocol.messages import BY_NAME
from security.acls.model import Operation, ResourceType
from tests.broker.apis.authorization.asking import fetch, produce
from tests.broker.apis.authorization.filled import (
    ADMIN,
    LONG_MS,
    LOOKER,
    NAMED,
    REQUESTS,
    STRANGER,
    Request,
    acl_for_owner,
    answers,
    fill,
    protected_broker,
    talk,
)
from tests.broker.authentication.letting_in import port_of
from tests.broker.every_request import EVERY, ORDERS_ID
from tests.waiting import until
from tests.wire import Wire

pytestmark = pytest.mark.proves("security 29")

CLUSTER, TOPIC, GROUP = ResourceType.CLUSTER, ResourceType.TOPIC, ResourceType.GROUP
Asked = tuple[Operation, ResourceType]

MODERN = "modern"
"""A consumer group (KIP-848) that is subscribed to the topic."""
SHARED = "shared"
"""A share group (KIP-932) that is subscribed to the topic."""
STREAMING = "streaming"
"""A streams group (KIP-1071) that reads the topic."""
UNCREATED = "uncreated"
"""The id of a streams group that needs an internal topic. LOOKER may read the group, but may not
create the topic."""


def _streams_join(group_id: str, *changelogs: str) -> dict[str, Any]:
    """Returns the first heartbeat of a streams group member whose topology reads the topic NAMED
    and has the changelog topics ``changelogs``."""
    topics = [{"name": name} for name in changelogs]
    subtopology = {
        "subtopology_id": "0",
        "source_topics": [NAMED],
        "state_changelog_topics": topics,
    }
    return {
        "group_id": group_id, "member_id": "member", "member_epoch": 0,
        "rebalance_timeout_ms": LONG_MS,
        "topology": {"epoch": 0, "subtopologies": [subtopology]},
        "active_tasks": [], "standby_tasks": [], "warmup_tasks": [],
    }  # fmt: skip


def of(name: str, version: int, **value: Any) -> Request:
    return BY_NAME[name], version, value


MORE = [
    of("CreateDelegationToken", 3, owner_principal_type="User", owner_principal_name=NAMED),
    of("FindCoordinator", 6, key_type=1, coordinator_keys=[NAMED]),
    of("FindCoordinator", 6, key_type=2, coordinator_keys=[NAMED]),
    of("Fetch", 12, **fetch(NAMED), replica_id=1),
    of("Metadata", 9, topics=[{"name": "new"}], allow_auto_topic_creation=True),
    of(
        "ShareFetch",
        2,
        group_id=NAMED,
        member_id=NAMED,
        max_records=1,
        topics=[{"topic_id": ORDERS_ID, "partitions": [{"partition_index": 0}]}],
    ),
    of("StreamsGroupHeartbeat", 0, **_streams_join(UNCREATED, "uncreated-changelog")),
    of("Produce", 7, **produce(NAMED, transactional=True) | {"transactional_id": NAMED}),
    *(
        of(name, version, **{f"include_{kind}authorized_operations": True}, **value)
        for name, version, kind, value in (
            ("ConsumerGroupDescribe", 1, "", {"group_ids": [MODERN]}),
            ("ShareGroupDescribe", 1, "", {"group_ids": [SHARED]}),
            ("StreamsGroupDescribe", 0, "", {"group_ids": [STREAMING]}),
            ("DescribeCluster", 0, "cluster_", {}),
            ("DescribeGroups", 5, "", {"groups": [NAMED]}),
            ("Metadata", 8, "cluster_", {"topics": None}),
            ("Metadata", 9, "topic_", {"topics": None}),
        )
    ),
]
"""Requests with fields that the requests of `filled` do not contain."""


def _join_modern(wire: Wire) -> None:
    """Lets one member join a consumer group, and waits until the member is assigned the topic's
    only partition."""
    joining = {
        "group_id": MODERN, "member_id": "member", "member_epoch": 0,
        "rebalance_timeout_ms": LONG_MS, "subscribed_topic_names": [NAMED],
        "topic_partitions": [],
    }  # fmt: skip
    until("assigned", lambda: wire.call("ConsumerGroupHeartbeat", 1, joining)["assignment"])


def _with_id(value: Any, topic_id: Any) -> Any:
    """Returns a request in which the placeholder of a topic id is replaced by the id of the
    topic."""
    if isinstance(value, dict):
        return {key: _with_id(each, topic_id) for key, each in value.items()}
    if isinstance(value, list):
        return [_with_id(each, topic_id) for each in value]
    return topic_id if value == ORDERS_ID else value


def _join_shared(wire: Wire) -> None:
    """Creates a share group whose member gets the partition of the topic."""
    joining = {
        "group_id": SHARED, "member_id": SHARED, "member_epoch": 0,
        "subscribed_topic_names": [NAMED],
    }  # fmt: skip

    def has_partitions() -> bool:
        assignment = wire.call("ShareGroupHeartbeat", 1, joining)["assignment"]
        return bool(assignment and assignment["topic_partitions"])

    until("assigned", has_partitions)


def _join_streams(wire: Wire) -> None:
    """Creates a streams group, and allows LOOKER to read the group `UNCREATED`."""
    joining = _streams_join(STREAMING)
    until("joined", lambda: wire.call("StreamsGroupHeartbeat", 0, joining)["member_epoch"])
    reading = {
        **acl_for_owner(UNCREATED),
        "resource_type": GROUP,
        "principal": f"User:{LOOKER}",
        "operation": Operation.READ,
    }
    wire.call("CreateAcls", 3, {"creations": [reading]})


class RecordingAuthorizer(AclAuthorizer):
    """An authorizer that records its checks."""

    asked: set[Asked]
    told: set[ResourceType]

    def allows(self, connection: Any, operation: Any, kind: Any, name: str, **more: Any) -> bool:
        self.asked.add((operation, kind))
        return super().allows(connection, operation, kind, name, **more)

    def allows_somewhere(self, connection: Any, operation: Any, kind: Any, *, api: str) -> Any:
        self.asked.add((operation, kind))
        return super().allows_somewhere(connection, operation, kind, api=api)

    def operations(self, connection: Any, kind: ResourceType, name: str) -> int:
        self.told.add(kind)
        return super().operations(connection, kind, name)


def rights_in_row(rights: Rights) -> Iterator[RequiredAcl | None]:
    for need in rights.needs:
        yield from need.needs if isinstance(need, AnyOf) else (need,)
    match rights.each:
        case EachResource():
            for kind in (TOPIC, CLUSTER, GROUP):
                yield RequiredAcl(rights.each.operation, kind)
        case Each():
            yield from (rights.each.unless, RequiredAcl(rights.each.operation, rights.each.kind))
    for each in (*rights.hides, *rights.own):
        yield from (each.unless, RequiredAcl(each.operation, each.kind))
    for tells in rights.tells:
        yield tells.need


async def test_each_api_checks_exactly_the_rights_in_the_api_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acl_authorizer, "AclAuthorizer", RecordingAuthorizer)
    differ = {}
    async with protected_broker(tmp_path) as broker:
        authorizer = broker.secured.authorizer
        assert isinstance(authorizer, RecordingAuthorizer)
        authorizer.asked, authorizer.told = set(), set()
        for api in {api.key: api for api, _ in EVERY}.values():
            await fill(broker)
            await talk(broker, ADMIN, _join_modern)
            await talk(broker, ADMIN, _join_shared)
            await talk(broker, ADMIN, _join_streams)
            authorizer.asked, authorizer.told = set(), set()
            topic_id = broker.registry.topic_id(NAMED)
            some = [
                (each, version, _with_id(value, topic_id))
                for each, version, value in (*MORE, *REQUESTS)
                if each is api
            ]
            for user in (STRANGER, LOOKER, ADMIN):
                await asyncio.to_thread(answers, port_of(broker), user, some)
            rights = SERVED[api.key].rights
            said = {
                (need.operation, need.kind) for need in rights_in_row(rights) if need is not None
            }
            told = {each.kind for each in rights.tells}
            if (authorizer.asked, authorizer.told) != (said, told):
                differ[api.name] = authorizer.asked ^ said, authorizer.told ^ told
    assert differ == {}
