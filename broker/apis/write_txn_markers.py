"""WriteTxnMarkers (27): writes transaction markers, for coordinators on other brokers and for
operators.

Versions: v1 is flexible; v2 adds transaction_version (KIP-1228), which is 1 in earlier versions.
The group coordinator writes the marker of a partition of ``__consumer_offsets``. The response is
sent when every marker is stable; the offsets that a marker commits are visible then. A partition
refuses a marker with a lower producer epoch (INVALID_PRODUCER_EPOCH) or from an older coordinator
(TRANSACTION_COORDINATOR_FENCED).

If an operator ends a transaction without its coordinator, the broker reports the end in the log,
the metrics and the journal.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from broker.apis.shared.authorization import is_allowed, refuse
from broker.apis.shared.gather import Gather
from broker.apis.shared.transactional import client_of
from broker.net.request import Request, ServedApi, Steps
from broker.net.required_acls import AnyOf, Rights, cluster
from log.values import Marker
from protocol.errors import (
    CLUSTER_AUTHORIZATION_FAILED,
    NONE,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from protocol.messages.write_txn_markers import API
from security.acls.model import Operation
from transactions.calls import TV1, TV2, Partitions
from transactions.events import EndedPastCoordinator

if TYPE_CHECKING:
    from broker.apis.shared.services import Services
    from broker.topics.partition import Partition

_ALTER_OR_BROKER = AnyOf(
    (cluster(Operation.ALTER, is_logged=False), cluster(Operation.CLUSTER_ACTION))
)
_BROKER = re.compile(r"(?P<muster>\d{1,10})|broker-(?P<kafka>\d{1,10})-txn-marker-sender")
"""The client ids of WriteTxnMarkers requests from brokers of Muster and of Kafka."""
_STEP = 500
"""The maximum number of transactional ids that are checked before the handler pauses for other
requests."""


def _handle(services: Services, request: Request) -> Steps:
    if not any(is_allowed(services, request, each) for each in _ALTER_OR_BROKER.needs):
        refuse(request, CLUSTER_AUTHORIZATION_FAILED, _denial)
        return
    is_reported = not _is_broker(services, request)
    gather: Gather[int] = Gather()
    open_before: list[int | None] = []
    for wanted in request.value["markers"]:
        marker = _marker(wanted)
        yield None
        for topic in wanted["topics"]:
            for partition in topic["partition_indexes"]:
                place = services.logs.get(topic["name"], partition)
                if place is None:  # Kafka's coordinators treat this error as a moved leader
                    open_before.append(None)
                    gather.ticket().take(UNKNOWN_TOPIC_OR_PARTITION)
                else:
                    since_ms = None
                    if is_reported:
                        with services.transactions.errors.reporting("an open transaction"):
                            since_ms = _open_since(place, marker)
                    open_before.append(since_ms)
                    services.local_markers.write(topic["name"], partition, marker, gather.ticket())
                yield from gather.sent()
            yield None
    yield from gather.rest()
    outcomes = zip(gather.replies, open_before, strict=True)
    answers = request.array("markers")
    to_report: list[tuple[dict[str, Any], Partitions, int]] = []
    for wanted in request.value["markers"]:
        topics, ended, last_ms = request.array("markers", "topics"), [], 0
        for topic in wanted["topics"]:
            name, partitions = topic["name"], request.array("markers", "topics", "partitions")
            for partition in topic["partition_indexes"]:
                error_code, since_ms = next(outcomes)
                partitions.append({"partition_index": partition, "error_code": error_code})
                if since_ms is not None and error_code == NONE:
                    ended.append((name, (partition,)))
                    last_ms = max(last_ms, since_ms)
                yield None
            topics.append({"name": name, "partitions": partitions})
            yield None
        answers.append({"producer_id": wanted["producer_id"], "topics": topics})
        yield None
        if ended:
            to_report.append((wanted, ended, last_ms))
    worst = next((code for code in gather.replies if code != NONE), NONE)
    request.respond({"markers": answers}, worst)
    for written, closed, begun_ms in to_report:
        with services.transactions.errors.reporting("a marker written by an operator"):
            yield from _report_ended(services, request, written, closed, begun_ms)


def _denial(value: dict[str, Any]) -> dict[str, Any]:
    code = CLUSTER_AUTHORIZATION_FAILED
    markers = []
    for marker in value["markers"]:
        topics = [
            {
                "name": topic["name"],
                "partitions": [
                    {"partition_index": index, "error_code": code}
                    for index in topic["partition_indexes"]
                ],
            }
            for topic in marker["topics"]
        ]
        markers.append({"producer_id": marker["producer_id"], "topics": topics})
    return {"markers": markers}


def _is_broker(services: Services, request: Request) -> bool:
    """Returns True if the client id of the request contains the id of a broker of the cluster."""
    named = _BROKER.fullmatch(request.client_id or "")
    if services.enlisting is None or named is None:
        return False
    node_id = int(named["muster"] or named["kafka"])
    return services.cluster.node(node_id, services.advertised.listener(request)) is not None


def _open_since(place: Partition, marker: Marker) -> int | None:
    """Returns the time (Unix ms) of the producer's last write, if the producer has an open
    transaction; otherwise None."""
    producers = place.log.producers
    if marker.producer_id not in producers.open_transactions:
        return None
    known = producers.get(marker.producer_id)
    return None if known is None else known.last_timestamp_ms


def _marker(wanted: dict[str, Any]) -> Marker:
    return Marker(
        wanted["producer_id"],
        wanted["producer_epoch"],
        wanted["coordinator_epoch"],
        wanted["transaction_result"],
        TV2 if wanted["transaction_version"] >= TV2 else TV1,
    )


def _report_ended(
    services: Services, request: Request, wanted: dict[str, Any], ended: Partitions, since_ms: int
) -> Steps:
    """Reports a transaction that an operator ended: a log line, a metric, and an entry in the
    journal of the transactional id."""
    producer_id, epoch = wanted["producer_id"], wanted["producer_epoch"]
    committed = wanted["transaction_result"]
    transactional_id = yield from _id_of(services, producer_id)
    event = EndedPastCoordinator(
        transactional_id, producer_id, epoch, committed, ended, since_ms, client_of(request)
    )
    services.transactions.life.emit([event])


def _id_of(services: Services, producer_id: int) -> Generator[None, None, str]:
    """Returns the transactional id that has the producer id; "" if none has it. The search is done
    in steps."""
    for hosted in list(services.transactions.hosted_shards):
        ids = list(hosted.core.view.transactions.values())
        for start in range(0, len(ids), _STEP):
            for known in ids[start : start + _STEP]:
                if known.producer_id == producer_id:
                    return known.transactional_id
            yield None
    return ""


SERVED = ServedApi(
    API,
    0,
    2,
    _handle,
    rights=Rights((_ALTER_OR_BROKER,)),
)
