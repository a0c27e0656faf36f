"""AddOffsetsToTxn (25): adds the offsets of a group to a transaction.

The request adds the group's partition of ``__consumer_offsets``. Versions: v2 returns
PRODUCER_FENCED in place of INVALID_PRODUCER_EPOCH; v3 is flexible; v4 is sent by clients that know
TRANSACTION_ABORTABLE. Producers with KIP-890's rules do not send this request: their
TxnOffsetCommit adds the partition.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.apis.find_coordinator import is_made
from broker.apis.shared.authorization import is_allowed
from broker.apis.shared.transactional import client_of, error_for_version
from broker.net.request import Request, ServedApi
from broker.net.required_acls import Rights, group, transactional_id
from broker.topics.owned_topics import OWNED
from broker.topics.registry import OFFSETS_TOPIC
from offsets.partitioner import partition_for
from protocol.errors import (
    COORDINATOR_NOT_AVAILABLE,
    GROUP_AUTHORIZATION_FAILED,
    INVALID_REQUEST,
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
)
from protocol.messages.add_offsets_to_txn import API
from security.acls.model import Operation
from transactions.calls import TV1, AddPartitions

if TYPE_CHECKING:
    from broker.apis.shared.services import Services

_WRITE, _READ = transactional_id(Operation.WRITE), group(Operation.READ)
_KNOWS_FENCED = 2
"""The first version whose clients know PRODUCER_FENCED."""


def _handle(services: Services, request: Request) -> None:
    value = request.value
    if not is_allowed(services, request, _WRITE, value["transactional_id"]):
        _answer(request, TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        return
    if not is_allowed(services, request, _READ, value["group_id"]):
        _answer(request, GROUP_AUTHORIZATION_FAILED)
        return
    if not value["transactional_id"]:
        _answer(request, INVALID_REQUEST)
        return
    partition = _partition(services, request)
    if partition is not None:
        _submit(services, request, partition)
    else:  # a producer may send this request before it finds the group's coordinator
        request.answer_later(_submit_with_topic(services, request))


def _partition(services: Services, request: Request) -> int | None:
    """Returns the index of the group's partition of ``__consumer_offsets``, even if another broker
    leads the partition. Returns None if the topic does not exist."""
    group_id = request.value["group_id"]
    shard = services.groups.hosted_for(group_id)
    if shard is not None:
        return shard.index
    topic = services.registry.topic(OFFSETS_TOPIC)
    return None if topic is None else partition_for(group_id, topic.partitions)


async def _submit_with_topic(services: Services, request: Request) -> None:
    made = await is_made(services, OWNED[OFFSETS_TOPIC])
    partition = _partition(services, request) if made else None
    if partition is None:
        _answer(request, COORDINATOR_NOT_AVAILABLE)
    else:
        _submit(services, request, partition)


def _submit(services: Services, request: Request, partition: int) -> None:
    value = request.value
    request.encode = _answer
    services.transactions.submit(
        value["transactional_id"],
        AddPartitions(
            request,
            value["transactional_id"],
            value["producer_id"],
            value["producer_epoch"],
            [(OFFSETS_TOPIC, [partition])],
            TV1,
            client_of(request),
            value["group_id"],
        ),
    )


def _answer(request: Request, error_code: int) -> None:
    known = error_for_version(error_code, request.api_version >= _KNOWS_FENCED)
    request.respond({"error_code": known})


SERVED = ServedApi(API, 0, 4, _handle, rights=Rights((_WRITE, _READ)))
