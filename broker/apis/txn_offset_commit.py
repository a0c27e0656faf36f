"""TxnOffsetCommit (28): commits offsets of a group that take effect when the producer's transaction
commits.

Versions: v1 has the same format as v0; v2 adds the committed leader epoch; v3 is flexible, and adds
generation, member and group instance id (KIP-447); v4 adds TRANSACTION_ABORTABLE. From v5 on, the
broker itself adds the partition of ``__consumer_offsets`` to the transaction (KIP-890). v6 has
topic ids in place of names, and the errors GROUP_ID_NOT_FOUND and STALE_MEMBER_EPOCH in place of
ILLEGAL_GENERATION (KIP-1319).

As in Kafka, the checks have this order: topics, coordinator of the group, transaction, group.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from broker.apis.shared.add_partitions_on_write import NOT_ASKED, Answered, Enlisted
from broker.apis.shared.authorization import are_known, is_allowed, split
from broker.apis.shared.commit_topics import READ_TOPIC, CommitTopics
from broker.apis.shared.transactional import client_of
from broker.cores.groups.runtime import HostedGroups
from broker.net.request import Request, ServedApi, Steps
from broker.net.required_acls import Rights, group, transactional_id
from broker.topics.registry import OFFSETS_TOPIC
from coordinator.calls import TxnOffsetCommit
from coordinator.outcome import CommitReply
from protocol.errors import (
    COORDINATOR_LOAD_IN_PROGRESS,
    COORDINATOR_NOT_AVAILABLE,
    GROUP_AUTHORIZATION_FAILED,
    INVALID_GROUP_ID,
    INVALID_PRODUCER_EPOCH,
    INVALID_TXN_STATE,
    NETWORK_EXCEPTION,
    NONE,
    TRANSACTION_ABORTABLE,
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
)
from protocol.generated.txn_offset_commit import DECODE_REQUEST, ENCODE_RESPONSE
from protocol.messages.txn_offset_commit import API
from security.acls.model import Operation
from transactions.calls import TV1, TV2

if TYPE_CHECKING:
    from broker.apis.shared.services import Services

_WRITE, _READ_GROUP = transactional_id(Operation.WRITE), group(Operation.READ)
_FIRST_WITH_LOADING = 2
_FIRST_WITH_ABORTABLE = 4
_FIRST_OF_TV2 = 5
_FIRST_WITH_IDS = 6
_TOPICS = CommitTopics(ENCODE_RESPONSE)


def _handle(services: Services, request: Request) -> Steps | None:
    decoded = request.context or DECODE_REQUEST[request.api_version](
        request.buffer, request.position
    )
    if services.authorizer.judges:
        transactional_id, group_id, topics = decoded[0], decoded[1], decoded[-1]
        if not is_allowed(services, request, _WRITE, transactional_id):
            _TOPICS.refuse(request, topics, TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
            return None
        if not is_allowed(services, request, _READ_GROUP, group_id):
            _TOPICS.refuse(request, topics, GROUP_AUTHORIZATION_FAILED)
            return None
        by_id = request.api_version >= _FIRST_WITH_IDS
        name_of = services.registry.topic_name if by_id else str
        if not are_known(services, request, READ_TOPIC, [name_of(topic[0]) for topic in topics]):
            return _handle_allowed(services, request, decoded, name_of)
    _look_up(services, request, decoded)
    return None


def _handle_allowed(
    services: Services,
    request: Request,
    decoded: Any,
    name_of: Callable[[Any], str | None],
) -> Steps:
    topics, denied = yield from split(
        services, request, READ_TOPIC, decoded[-1], lambda topic: name_of(topic[0])
    )
    _look_up(services, request, (*decoded[:-1], topics), denied)


def _look_up(
    services: Services, request: Request, decoded: Any, denied: Sequence[Any] = ()
) -> None:
    """Submits the commit to the group's shard. If the group's partition must first be added to the
    transaction, the commit waits until the transaction has the partition."""
    version = request.api_version
    (
        transactional_id, group_id, producer_id, epoch, generation_id, member_id, instance_id,
        topics,
    ) = decoded  # fmt: skip
    by_id = version >= _FIRST_WITH_IDS
    offsets = _TOPICS.take(services.registry, request, topics, by_id=by_id, denied=denied)
    if not offsets:
        request.take(CommitReply(()))  # an empty commit is not checked further, as in OffsetCommit
        return
    if not group_id:
        request.take(CommitReply(INVALID_GROUP_ID))
        return
    client = client_of(request)
    rules = TV2 if version >= _FIRST_OF_TV2 else TV1
    enlisted = Enlisted(transactional_id, producer_id, epoch, rules, client, group_id)
    call = TxnOffsetCommit(
        _Ticket(request),
        group_id,
        producer_id,
        epoch,
        generation_id,
        member_id,
        instance_id,
        offsets,
        *client,
        knows_member_epochs=by_id,
    )
    hosted = services.groups.hosted_for(group_id)
    elsewhere = enlisted.is_elsewhere(services)
    asks = elsewhere or rules == TV2
    if asks and hosted is not None and _must_be_added(services, enlisted, hosted, elsewhere):
        if elsewhere:
            request.answer_later(_ask_and_commit(services, enlisted, hosted.index, call))
        else:
            request.answer_later(_add_and_commit(services, enlisted, hosted.index, call))
    else:
        _commit(services, enlisted, call)


class _Ticket:
    """The ticket of a request; translates the coordinator's error code for the request's
    version."""

    __slots__ = ("request",)

    def __init__(self, request: Request) -> None:
        self.request = request

    def take(self, reply: CommitReply) -> None:
        if type(reply.errors) is int:
            reply = CommitReply(_as_known(reply.errors, self.request.api_version))
        self.request.take(reply)


def _as_known(error: int, version: int) -> int:
    """Returns, for all partitions, an error code that this version of the request knows
    (KAFKA-7296, KIP-890).

    NETWORK_EXCEPTION, after which a client fails, becomes COORDINATOR_LOAD_IN_PROGRESS, after which
    a client retries.
    """
    if error == NETWORK_EXCEPTION:
        error = COORDINATOR_LOAD_IN_PROGRESS
    if error == COORDINATOR_LOAD_IN_PROGRESS and version < _FIRST_WITH_LOADING:
        return COORDINATOR_NOT_AVAILABLE
    if error == TRANSACTION_ABORTABLE and version < _FIRST_WITH_ABORTABLE:
        return INVALID_TXN_STATE
    return error


def _must_be_added(
    services: Services, enlisted: Enlisted, hosted: HostedGroups, elsewhere: bool
) -> bool:
    """Returns True if the transaction coordinator must first add the group's partition of
    ``__consumer_offsets`` to the transaction, or verify that the transaction has this partition.

    Returns False if this broker can't write to the group's shard, or if the transaction is already
    open in the partition. In any other case, returns True if the coordinator is on another broker.
    """
    if services.groups.view_of(enlisted.group_id) is None or enlisted.is_open(hosted.partition):
        return False
    return elsewhere or enlisted.must_be_added(services, hosted.partition)


async def _add_and_commit(
    services: Services, enlisted: Enlisted, index: int, call: TxnOffsetCommit
) -> None:
    error = await enlisted.add(services, ((OFFSETS_TOPIC, (index,)),))
    if error:
        call.ticket.take(CommitReply(error))
    else:
        _commit(services, enlisted, call)


async def _ask_and_commit(
    services: Services, enlisted: Enlisted, index: int, call: TxnOffsetCommit
) -> None:
    answered = await enlisted.ask(services, ((OFFSETS_TOPIC, (index,)),))
    _commit(services, enlisted, call, answered)


def _commit(
    services: Services, enlisted: Enlisted, call: TxnOffsetCommit, answered: Answered = NOT_ASKED
) -> None:
    """Checks the transaction of a TxnOffsetCommit. If the transaction is valid, passes the offsets
    to the group's shard in the same turn.

    If the shard is not active, nothing is checked, because the shard itself replies with an error.
    """
    hosted = services.groups.hosted_for(call.group_id)
    if hosted is not None and services.groups.view_of(call.group_id) is not None:
        error = _error(services, enlisted, hosted, answered)
        if error:
            call.ticket.take(CommitReply(error))
            return
    services.groups.submit(call.group_id, call)


def _error(services: Services, enlisted: Enlisted, hosted: HostedGroups, answered: Answered) -> int:
    partition = hosted.partition
    if enlisted.is_open(partition):
        return NONE
    error = enlisted.refusal(services, partition, answered)
    if error:
        return error
    known = partition.producers_of(enlisted.producer_id).get(enlisted.producer_id)
    fenced = known is not None and known.epoch > enlisted.producer_epoch
    return INVALID_PRODUCER_EPOCH if fenced else NONE


SERVED = ServedApi(
    API,
    0,
    6,
    _handle,
    elements_max=10_000,
    decoders=DECODE_REQUEST,
    rights=Rights((_WRITE, _READ_GROUP), READ_TOPIC),
)
