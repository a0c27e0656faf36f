"""ConsumerGroupDescribe (69): members, epochs and assignments of consumer groups (KIP-848).

Versions: v1 adds the type of each member (KIP-1099). An unknown group, or a group of another type,
gets GROUP_ID_NOT_FOUND: Java's admin client then sends DescribeGroups.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from broker.apis.shared.described_groups import (
    RIGHTS,
    DescribedType,
    assigned_topics,
    describe,
    named,
)
from broker.net.request import Request, ServedApi, Steps
from broker.topics.registry import Registry
from coordinator.calls import ConsumerGroupDescribe
from coordinator.outcome import ConsumerDescribeReply, DescribedConsumer
from protocol.messages.consumer_group_describe import API

if TYPE_CHECKING:
    from broker.apis.shared.services import Services

_CLASSIC_MEMBER, _CONSUMER_MEMBER = 0, 1


def _member(registry: Registry, member: DescribedConsumer) -> dict[str, Any]:
    return {
        "member_id": member.member_id,
        "instance_id": member.instance_id,
        "rack_id": member.rack_id,
        "member_epoch": member.epoch,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "subscribed_topic_names": list(member.subscribed_topics),
        "subscribed_topic_regex": member.subscribed_regex,
        "assignment": named(registry, member.assignment),
        "target_assignment": named(registry, member.target),
        "member_type": _CLASSIC_MEMBER if member.is_classic else _CONSUMER_MEMBER,
    }


_CONSUMER_GROUPS = DescribedType(
    ConsumerGroupDescribe,
    ConsumerDescribeReply,
    lambda reply: {"assignor_name": reply.assignor},
    assigned_topics(lambda member: (member.assignment, member.target)),
    _member,
)


def _handle(services: Services, request: Request) -> Steps:
    yield from describe(services, request, _CONSUMER_GROUPS)


SERVED = ServedApi(API, 0, 1, _handle, rights=RIGHTS)
