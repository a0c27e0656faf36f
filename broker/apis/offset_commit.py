"""OffsetCommit (8): commits a group's offsets. The response is sent when the offsets are stable in
the log.

Versions: v0 stores offsets as ZooKeeper's consumer paths did (`shared/old_offsets.py`). v1 stores
offsets in the log; it adds generation, member, and a commit timestamp for each partition. v2 has a
retention time instead of the timestamps; v3 adds the throttle time; v5 omits the retention time; v6
adds the committed leader epoch; v7 the group instance id; v8 is flexible; v9 returns
GROUP_ID_NOT_FOUND in place of ILLEGAL_GENERATION (KIP-848); v10 has topic ids in place of names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from broker.apis.shared import old_offsets
from broker.apis.shared.authorization import are_known, is_allowed, split
from broker.apis.shared.commit_topics import READ_TOPIC, CommitTopics
from broker.apis.shared.old_offsets import READ_GROUP
from broker.net.request import Request, ServedApi, Steps
from broker.net.required_acls import Rights
from coordinator.calls import OffsetCommit
from coordinator.outcome import CommitReply
from protocol.errors import GROUP_AUTHORIZATION_FAILED, GROUP_ID_NOT_FOUND
from protocol.generated.offset_commit import DECODE_REQUEST, ENCODE_RESPONSE
from protocol.messages.offset_commit import API

if TYPE_CHECKING:
    from broker.apis.shared.services import Services

_FIRST_WITH_MEMBER_EPOCHS = 9
_FIRST_WITH_IDS = 10
_TOPICS = CommitTopics(ENCODE_RESPONSE)


def _handle(services: Services, request: Request) -> Steps | None:
    version = request.api_version
    if version == 0:
        return old_offsets.commit(services, request)
    decoded = request.context or DECODE_REQUEST[version](request.buffer, request.position)
    if services.authorizer.judges:
        topics = decoded[-1]
        if not is_allowed(services, request, READ_GROUP, decoded[0]):
            _TOPICS.refuse(request, topics, GROUP_AUTHORIZATION_FAILED)
            return None
        name_of = services.registry.topic_name if version >= _FIRST_WITH_IDS else str
        if not are_known(services, request, READ_TOPIC, [name_of(topic[0]) for topic in topics]):
            return _commit_allowed(services, request, decoded, name_of)
    _commit(services, request, decoded)
    return None


def _commit_allowed(
    services: Services,
    request: Request,
    decoded: Any,
    name_of: Callable[[Any], str | None],
) -> Steps:
    topics, denied = yield from split(
        services, request, READ_TOPIC, decoded[-1], lambda topic: name_of(topic[0])
    )
    _commit(services, request, (*decoded[:-1], topics), denied)


def _commit(services: Services, request: Request, decoded: Any, denied: Sequence[Any] = ()) -> None:
    version = request.api_version
    group_id, generation_id, member_id, group_instance_id, retention_time_ms, topics = decoded
    offsets = _TOPICS.take(
        services.registry, request, topics, by_id=version >= _FIRST_WITH_IDS, denied=denied
    )
    if not offsets:
        # As in Kafka, an empty commit is not checked further.
        request.take(CommitReply(()))
        return
    if (
        version >= _FIRST_WITH_MEMBER_EPOCHS
        and generation_id >= 0
        and _is_unknown(services, group_id)
    ):
        request.take(CommitReply(GROUP_ID_NOT_FOUND))
        return
    services.groups.submit(
        group_id,
        OffsetCommit(
            request,
            group_id,
            generation_id,
            member_id,
            group_instance_id,
            retention_time_ms,
            offsets,
            request.client_id,
            request.connection.client_host,
            str(request.connection.principal) if generation_id < 0 else "",
            version >= _FIRST_WITH_MEMBER_EPOCHS,
        ),
    )


def _is_unknown(services: Services, group_id: str) -> bool:
    view = services.groups.view_of(group_id)
    return view is not None and group_id not in view.groups and group_id not in view.consumer_groups


SERVED = ServedApi(
    API,
    0,
    10,
    _handle,
    elements_max=10_000,
    decoders={version: DECODE_REQUEST[version] for version in range(1, 11)},
    rights=Rights((READ_GROUP,), READ_TOPIC),
)
