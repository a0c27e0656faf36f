"""ShareGroupDescribe (77): members, epochs and assignments of share groups (KIP-932).

Only v1 is served: v0 was an early access version of Kafka 4.0, which Kafka 4.1 has removed. An
unknown group, or a group of another type, gets GROUP_ID_NOT_FOUND.
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
from coordinator.calls import ShareGroupDescribe
from coordinator.outcome import DescribedShareMember, ShareDescribeReply
from protocol.messages.share_group_describe import API

if TYPE_CHECKING:
    from broker.apis.shared.services import Services


def _member(registry: Registry, member: DescribedShareMember) -> dict[str, Any]:
    return {
        "member_id": member.member_id,
        "rack_id": member.rack_id,
        "member_epoch": member.epoch,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "subscribed_topic_names": list(member.subscribed_topics),
        "assignment": named(registry, member.assignment),
    }


_SHARE_GROUPS = DescribedType(
    ShareGroupDescribe,
    ShareDescribeReply,
    lambda reply: {"assignor_name": reply.assignor},
    assigned_topics(lambda member: (member.assignment,)),
    _member,
)


def _handle(services: Services, request: Request) -> Steps:
    yield from describe(services, request, _SHARE_GROUPS)


SERVED = ServedApi(API, 1, 1, _handle, rights=RIGHTS)
