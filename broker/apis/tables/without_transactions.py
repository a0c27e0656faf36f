"""The table of served APIs in a cluster without transactions, whose inter.broker.protocol.version
is below 0.11.

InitProducerId is still served, as in Kafka 3.9: a producer may be idempotent, although brokers do
not store its sequence numbers. The other APIs of transactions are missing in ApiVersions. A client
that sends such a request anyway gets UNSUPPORTED_VERSION in each error field of the response.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from broker.apis.add_offsets_to_txn import SERVED as ADD_OFFSETS_TO_TXN
from broker.apis.add_partitions_to_txn import FROM_BROKERS
from broker.apis.add_partitions_to_txn import SERVED as ADD_PARTITIONS_TO_TXN
from broker.apis.end_txn import SERVED as END_TXN
from broker.apis.tables.cluster import SERVED_IN_CLUSTER
from broker.apis.tables.standalone import by_key
from broker.apis.txn_offset_commit import SERVED as TXN_OFFSET_COMMIT
from broker.apis.write_txn_markers import SERVED as WRITE_TXN_MARKERS
from broker.net.request import Handler, Request, ServedApi, Steps
from broker.net.required_acls import nothing
from protocol.encoded_array import EncodedArray
from protocol.errors import UNSUPPORTED_VERSION

if TYPE_CHECKING:
    from broker.apis.shared.services import Services


_FIRST_WITH_TOPIC_IDS = 6
"""The first version of TxnOffsetCommit with topic ids (KIP-1319)."""
_NONE = nothing("every client gets UNSUPPORTED_VERSION, as in Kafka")


def _refuse(_services: Services, request: Request) -> None:
    request.respond({"error_code": UNSUPPORTED_VERSION})


def _refuse_partitions(services: Services, request: Request) -> Steps:
    if request.api_version >= FROM_BROKERS:
        _refuse(services, request)
        return
    path = "results_by_topic_v3_and_below"
    named = ((topic["name"], topic["partitions"]) for topic in request.value["v3_and_below_topics"])
    topics = yield from _topics(
        request, (path,), "results_by_partition", "partition_error_code", named
    )
    request.respond({path: topics}, UNSUPPORTED_VERSION)


def _refuse_offsets(_services: Services, request: Request) -> Steps:
    key = "name" if request.api_version < _FIRST_WITH_TOPIC_IDS else "topic_id"
    named = (
        (topic[key], (each["partition_index"] for each in topic["partitions"]))
        for topic in request.value["topics"]
    )
    topics = yield from _topics(request, ("topics",), "partitions", "error_code", named, key)
    request.respond({"topics": topics}, UNSUPPORTED_VERSION)


def _refuse_markers(_services: Services, request: Request) -> Steps:
    markers = request.array("markers")
    for marker in request.value["markers"]:
        named = ((topic["name"], topic["partition_indexes"]) for topic in marker["topics"])
        path = ("markers", "topics")
        topics = yield from _topics(request, path, "partitions", "error_code", named)
        markers.append({"producer_id": marker["producer_id"], "topics": topics})
        yield None
    request.respond({"markers": markers}, UNSUPPORTED_VERSION)


def _topics(
    request: Request,
    path: tuple[str, ...],
    array: str,
    error: str,
    named: Iterable[tuple[str | bytes, Iterable[int]]],
    key: str = "name",
) -> Generator[None, None, EncodedArray]:
    """Returns the response entries of ``named`` topics, with UNSUPPORTED_VERSION for each
    partition. ``array``, ``error`` and ``key`` are field names."""
    topics = request.array(*path)
    for name, indexes in named:
        partitions = request.array(*path, array)
        for index in indexes:
            partitions.append({"partition_index": index, error: UNSUPPORTED_VERSION})
            yield None
        topics.append({key: name, array: partitions})
        yield None
    return topics


_REFUSED: tuple[tuple[ServedApi, Handler], ...] = (
    (ADD_PARTITIONS_TO_TXN, _refuse_partitions),
    (ADD_OFFSETS_TO_TXN, _refuse),
    (END_TXN, _refuse),
    (WRITE_TXN_MARKERS, _refuse_markers),
    (TXN_OFFSET_COMMIT, _refuse_offsets),
)


_ROWS = (
    replace(row, handle=handle, decoders={}, is_offered=False, rights=_NONE)
    for row, handle in _REFUSED
)

SERVED_WITHOUT_TRANSACTIONS = SERVED_IN_CLUSTER | by_key(*_ROWS)
"""The served APIs by API key, for an ``inter.broker.protocol.version`` below 0.11."""
