"""Produce (0): records to the end of partitions.

v0 and v1 carry message sets of magic 0, v2 of magic 1 too, from v3 on there is one batch of magic
2; v1 throttle time; v2 log append time; v3 transactional id; v5 log start offset; v7 zstd allowed;
v8 the records in error; v9 flexible; v10 the leader if it is another broker (never here); v13 topic
ids in place of names. acks 0 has no answer: an error closes the connection, so that the client asks
for metadata again, as in Kafka.

A transactional batch is appended where its partition is in the transaction, as that is looked up in
the turn of the append (`broker/apis/produce/transaction.py`); from v12 on the broker adds it first.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, TypeAlias

from broker.apis.produce.producing import Producing
from broker.apis.produce.response import Refused, finish
from broker.net.needs import Own, Rights, of_each
from broker.net.request import ELEMENTS_MAX, Handler, Request, ServedApi
from protocol.elements import TooManyElements
from protocol.generated.produce import DECODE_REQUEST
from protocol.generated.produce import Request as Decoded
from protocol.messages.produce import API
from security.acls.model import Operation, ResourceType

if TYPE_CHECKING:
    from broker.apis.services import Services

COUNTED_BYTES = 64 * 1024
"""A request below this is decoded in 5 ms, whatever it names."""
DECODED_AT_ONCE = 1000
"""Topics and partitions that a larger one may name to be decoded at once."""

Make: TypeAlias = "Callable[[Services, Request, Decoded], Producing]"
Prepared: TypeAlias = "Generator[None, None, Make] | None"
Prepare: TypeAlias = "Callable[[Services, Request, Decoded], Prepared]"


def handler_of(make: Make, prepare: Prepare | None = None) -> Handler:
    """What handles a request; ``make`` makes its work, or raises Refused for all of it.

    ``prepare`` gives steps where the work of a large request takes some before it is made; they
    end with what makes it instead.
    """

    def handle(services: Services, request: Request) -> None:
        if not _is_quickly_decoded(request):
            request.answer_later(_produce_many(services, request, make, prepare))
            return
        decoded = DECODE_REQUEST[request.api_version](request.buffer, request.position)
        steps = None if prepare is None else prepare(services, request, decoded)
        try:
            made = make if steps is None else _made_at_once(services, steps)
            if made is None:
                request.answer_later(_produce_prepared(services, request, decoded, make, steps))
                return
            producing = made(services, request, decoded)
        except Refused as refused:
            _refuse(services, request, decoded, refused)
            return
        if producing.transaction is not None:
            for _ in producing.transaction.look_what_to_add():
                pass
        if producing.done_at_once():
            producing.finish()
        else:
            request.answer_later(producing.go_on())

    return handle


def _made_at_once(services: Services, steps: Generator[None, None, Make]) -> Make | None:
    """What steps end with, as far as this turn of the loop has time; None when it has not."""
    slicer = services.slicer
    until_ns, ticks_ns = slicer.direct_until_ns(), slicer.time.ticks_ns
    while ticks_ns() < until_ns:
        try:
            next(steps)
        except StopIteration as end:
            made: Make = end.value
            return made
    return None


def _is_quickly_decoded(request: Request) -> bool:
    """Whether it is small or names no more than it should: its records are not looked at."""
    buffer, position = request.buffer, request.position
    if len(buffer) < COUNTED_BYTES:
        return True
    try:
        API.count_elements(request.api_version, buffer, position, DECODED_AT_ONCE)
    except TooManyElements:
        return False
    return True


async def _produce_many(
    services: Services, request: Request, make: Make, prepare: Prepare | None
) -> None:
    version, buffer, position = request.api_version, request.buffer, request.position

    def decode() -> Decoded:
        API.count_elements(version, buffer, position, ELEMENTS_MAX)
        return DECODE_REQUEST[version](buffer, position)

    decoded = await services.worker.run(request.connection, decode)
    steps = None if prepare is None else prepare(services, request, decoded)
    await _produce_prepared(services, request, decoded, make, steps)


async def _produce_prepared(
    services: Services, request: Request, decoded: Decoded, make: Make, steps: Prepared
) -> None:
    slices = services.slicer.work("Produce")
    try:
        if steps is not None:
            make = await slices.through(steps)
        producing = make(services, request, decoded)
        if producing.transaction is not None:
            await slices.through(producing.transaction.look_what_to_add())
    except Refused as refused:
        _refuse(services, request, decoded, refused)
        return
    finally:
        slices.end()
    await producing.go_on()


def _refuse(services: Services, request: Request, decoded: Decoded, refused: Refused) -> None:
    """Answers for a request that is refused as a whole."""
    _, acks, _, topics = decoded
    responses = [
        (key, [refused.done(index) for index, _ in partitions]) for key, partitions in topics
    ]
    finish(services, request, acks, responses)


_WRITE_ID = Own(
    Operation.WRITE,
    ResourceType.TRANSACTIONAL_ID,
    "the transactional id",
    "for transactional batches",
)
SERVED = ServedApi(
    API,
    0,
    13,
    handler_of(Producing),
    elements_max=None,
    rights=Rights(own=(of_each(ResourceType.TOPIC, Operation.WRITE), _WRITE_ID)),
)
