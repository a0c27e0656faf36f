"""WriteTxnMarkers (27): the ends of transactions, from other brokers and from operators.

v0; v1 flexible; v2 transaction_version (KIP-1228), 1 where a version has no such field. A partition
of the offsets topic gets its marker from the group coordinator. The answer comes when every marker
is stable, and with it the offsets that it commits are visible. A partition refuses the marker of a
lower epoch (INVALID_PRODUCER_EPOCH) and of an older coordinator (TRANSACTION_COORDINATOR_FENCED).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from broker.apis.gather import Gather
from broker.net.request import Request, ServedApi, Steps
from log.values import Marker
from protocol.errors import NONE
from protocol.messages.write_txn_markers import API
from transactions.calls import TV1, TV2

if TYPE_CHECKING:
    from broker.apis.services import Services


def _handle(services: Services, request: Request) -> Steps:
    gather: Gather[int] = Gather()
    for wanted in request.value["markers"]:
        marker = _marker(wanted)
        for topic in wanted["topics"]:
            for partition in topic["partition_indexes"]:
                services.local_markers.write(topic["name"], partition, marker, gather.ticket())
                yield from gather.sent()
    yield from gather.rest()
    codes = iter(gather.replies)
    answers = request.array("markers")
    for wanted in request.value["markers"]:
        topics = []
        for topic in wanted["topics"]:
            partitions = []
            for partition in topic["partition_indexes"]:
                partitions.append({"partition_index": partition, "error_code": next(codes)})
                yield None
            topics.append({"name": topic["name"], "partitions": partitions})
        answers.append({"producer_id": wanted["producer_id"], "topics": topics})
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


SERVED = ServedApi(API, 0, 2, _handle)
