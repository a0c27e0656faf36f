"""Produce (0): appends records to partitions.

Versions: v0 and v1 carry message sets of magic 0, v2 also of magic 1; from v3 on, a partition has
one batch of magic 2. v1 adds the throttle time; v2 the log append time; v3 the transactional id; v5
the log start offset; v7 allows zstd; v8 adds the invalid records to errors; v9 is flexible; v10
adds the current leader after NOT_LEADER_OR_FOLLOWER, which Muster never sends; v13 has topic ids in
place of names.

A request with acks=0 gets no response. An error closes the connection, so that the client refreshes
its metadata, as in Kafka.

A transactional batch is appended only if its partition is in the transaction. This check and the
append run in the same turn (`broker/apis/produce/transaction.py`). From v12 on, the broker first
adds the partition to the transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Set
from typing import TYPE_CHECKING, Any

from broker.apis.produce.producing import WRITE, Producing, has_transactional
from broker.apis.produce.response import Refused, answer
from broker.apis.produce.transaction import FIRST_WITH_IDS
from broker.apis.shared.authorization import are_known, denied, is_allowed
from broker.net.request import ELEMENTS_MAX, Request, ServedApi
from broker.net.required_acls import HandlerAcl, Rights
from protocol.elements import TooManyElements
from protocol.errors import TRANSACTIONAL_ID_AUTHORIZATION_FAILED
from protocol.generated.produce import DECODE_REQUEST
from protocol.generated.produce import Request as Decoded
from protocol.messages.produce import API
from security.acls.model import Operation, ResourceType

if TYPE_CHECKING:
    from broker.apis.shared.services import Services

COUNTED_BYTES = 64 * 1024
"""The minimum size in bytes of a Produce request whose partitions are counted before the request is
decoded. A smaller request is decoded within 5 ms, however many partitions it names."""
DECODED_AT_ONCE = 1000
"""The maximum number of topics and partitions in a request that the event loop's thread decodes.
This limit applies only to requests of at least COUNTED_BYTES."""


def _handle(services: Services, request: Request) -> None:
    if len(request.buffer) >= COUNTED_BYTES and _names_many(request):
        request.answer_later(_produce_many(services, request))
        return
    decoded = DECODE_REQUEST[request.api_version](request.buffer, request.position)
    if services.authorizer.judges and not _is_known(services, request, decoded):
        request.answer_later(_produce_in_slices(services, request, decoded))
        return
    try:
        producing = Producing(services, request, decoded)
    except Refused as refused:
        _refuse(request, decoded, refused)
        return
    if producing.transaction is not None:
        for _ in producing.transaction.look_what_to_add():
            pass
    if producing.done_at_once():
        answer(request, producing.acks, producing.answers, producing.unstable, producing.timeout_ms)
    else:
        request.answer_later(producing.go_on())


def _names_many(request: Request) -> bool:
    """Returns True if the request names more than DECODED_AT_ONCE topics and partitions. The
    function reads no records."""
    try:
        API.count_elements(request.api_version, request.buffer, request.position, DECODED_AT_ONCE)
    except TooManyElements:
        return True
    return False


async def _produce_many(services: Services, request: Request) -> None:
    version, buffer, position = request.api_version, request.buffer, request.position

    def decode() -> Decoded:
        API.count_elements(version, buffer, position, ELEMENTS_MAX)
        return DECODE_REQUEST[version](buffer, position)

    decoded = await services.worker.run(request.connection, decode)
    await _produce_in_slices(services, request, decoded)


async def _produce_in_slices(services: Services, request: Request, decoded: Decoded) -> None:
    slices = services.slicer.work("Produce")
    try:
        refused_topics: Set[str | bytes] = frozenset()
        if services.authorizer.judges and has_transactional(decoded[3]):
            refused_topics = await slices.through(_denied(services, request, decoded))
        producing = Producing(services, request, decoded, refused_topics)
        if producing.transaction is not None:
            await slices.through(producing.transaction.look_what_to_add())
    except Refused as refused:
        _refuse(request, decoded, refused)
        return
    finally:
        slices.end()
    await producing.go_on()


def _is_known(services: Services, request: Request, decoded: Decoded) -> bool:
    """Returns True if the handler can start the request before it calls the authorizer: the request
    is not transactional, or the authorization cache allows its transactional id and its topics."""
    transactional_id, _, _, topics = decoded
    if not has_transactional(topics):
        return True
    name_of = _name_of(services, request)
    return are_known(services, request, _WRITE_ID, (transactional_id,)) and are_known(
        services, request, WRITE, [name_of(key) for key, _ in topics]
    )


def _name_of(services: Services, request: Request) -> Callable[[Any], str | None]:
    """Returns a function from a topic's key in the request, a name or an id, to the topic's name.
    The function returns None for an unknown id."""
    return services.registry.topic_name if request.api_version >= FIRST_WITH_IDS else str


def _denied(
    services: Services, request: Request, decoded: Decoded
) -> Generator[None, None, Set[str | bytes]]:
    """Returns the topics of a transactional request to which the client may not write.

    The broker must not add these topics to the transaction. Raises Refused if the client has no
    WRITE permission on the transactional id.
    """
    transactional_id, _, _, topics = decoded
    if transactional_id is None or not is_allowed(services, request, _WRITE_ID, transactional_id):
        raise Refused(TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    name_of = _name_of(services, request)
    names = (name_of(key) for key, partitions in topics for _ in partitions)
    refused = yield from denied(services, request, WRITE, names)
    return {key for key, _ in topics if name_of(key) in refused}


def _refuse(request: Request, decoded: Decoded, refused: Refused) -> None:
    _, acks, _, topics = decoded
    answers = [
        (key, [refused.answer(index) for index, _ in partitions]) for key, partitions in topics
    ]
    answer(request, acks, answers)


_WRITE_ID = HandlerAcl(
    Operation.WRITE,
    ResourceType.TRANSACTIONAL_ID,
    "the transactional id",
    "for requests with transactional batches",
)
SERVED = ServedApi(
    API,
    0,
    13,
    _handle,
    elements_max=None,
    rights=Rights(own=(WRITE, _WRITE_ID)),
)
