"""WriteTxnMarkers (27): the ends of transactions, from other brokers and from operators.

v0; v1 flexible; v2 transaction_version (KIP-1228), 1 where a version has no such field. A partition
of the offsets topic gets its marker from the group coordinator. The answer comes when every marker
is stable, and with it the offsets that it commits are visible. A partition refuses the marker of a
lower epoch (INVALID_PRODUCER_EPOCH) and of an older coordinator (TRANSACTION_COORDINATOR_FENCED).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from broker.apis.gather import Gather
from broker.apis.transactional import client_of
from broker.net.request import Request, ServedApi, Steps
from log.values import Marker
from protocol.errors import NONE
from protocol.messages.write_txn_markers import API
from transactions.calls import TV1, TV2, Partitions
from transactions.events import EndedPastCoordinator

if TYPE_CHECKING:
    from broker.apis.services import Services


def _handle(services: Services, request: Request) -> Steps:
    gather: Gather[int] = Gather()
    open_before: list[bool] = []
    for wanted in request.value["markers"]:
        marker = _marker(wanted)
        yield None
        for topic in wanted["topics"]:
            for partition in topic["partition_indexes"]:
                place = services.logs.get(topic["name"], partition)
                open_before.append(
                    place is not None
                    and marker.producer_id in place.log.producers.open_transactions
                )
                services.local_markers.write(topic["name"], partition, marker, gather.ticket())
                yield from gather.sent()
    yield from gather.rest()
    outcomes = zip(gather.replies, open_before, strict=True)
    answers = request.array("markers")
    for wanted in request.value["markers"]:
        topics, ended = [], []
        for topic in wanted["topics"]:
            name, partitions = topic["name"], []
            for partition in topic["partition_indexes"]:
                error_code, was_open = next(outcomes)
                partitions.append({"partition_index": partition, "error_code": error_code})
                if was_open and error_code == NONE:
                    ended.append((name, (partition,)))
                yield None
            topics.append({"name": name, "partitions": partitions})
        answers.append({"producer_id": wanted["producer_id"], "topics": topics})
        yield None
        if ended:
            _tell(services, request, wanted, ended)
    worst = next((code for code in gather.replies if code != NONE), NONE)
    request.respond({"markers": answers}, worst)


def _marker(wanted: dict[str, Any]) -> Marker:
    return Marker(
        wanted["producer_id"],
        wanted["producer_epoch"],
        wanted["coordinator_epoch"],
        wanted["transaction_result"],
        TV2 if wanted["transaction_version"] >= TV2 else TV1,
    )


def _tell(services: Services, request: Request, wanted: dict[str, Any], ended: Partitions) -> None:
    """What was open is no more: a line of the log, and a metric."""
    producer_id, epoch = wanted["producer_id"], wanted["producer_epoch"]
    committed = wanted["transaction_result"]
    event = EndedPastCoordinator(producer_id, epoch, committed, ended, client_of(request))
    services.transactions.life.emit([event])


SERVED = ServedApi(API, 0, 2, _handle)
