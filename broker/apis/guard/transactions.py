"""The APIs of producers: InitProducerId and AddPartitionsToTxn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from broker.apis.guard.denials import deny
from broker.apis.guard.judging import counted, denied_in_steps, may
from broker.net.needs import Need, cluster
from broker.net.request import Handler, Request, Steps
from broker.topics.registry import INTERNAL_TOPICS
from protocol.errors import (
    CLUSTER_AUTHORIZATION_FAILED,
    OPERATION_NOT_ATTEMPTED,
    TOPIC_AUTHORIZATION_FAILED,
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from security.acls.model import Operation, ResourceType

if TYPE_CHECKING:
    from broker.apis.services import Services
    from broker.rights.authorizer import Authorizer

_WRITE_ID = Need(Operation.WRITE, ResourceType.TRANSACTIONAL_ID)
_IDEMPOTENT = cluster(Operation.IDEMPOTENT_WRITE, is_logged=False)
_AMONG_BROKERS = cluster(Operation.CLUSTER_ACTION)
_FIRST_FROM_BROKERS = 4


def init_producer_id(inner: Handler, authorizer: Authorizer) -> Handler:
    """InitProducerId: WRITE on the id; without one, who may write any topic at all (KIP-679)."""

    def handle(services: Services, request: Request) -> Steps | None:
        transactional_id = request.value["transactional_id"]
        if transactional_id is not None:
            if not may(authorizer, request, _WRITE_ID, transactional_id):
                deny(request, TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
                return None
        elif not may(authorizer, request, _IDEMPOTENT) and not authorizer.allows_somewhere(
            request.connection, Operation.WRITE, ResourceType.TOPIC, api=request.served.api.name
        ):
            deny(request, CLUSTER_AUTHORIZATION_FAILED)
            return None
        return inner(services, request)

    return handle


def add_partitions_to_txn(inner: Handler, authorizer: Authorizer) -> Handler:
    """AddPartitionsToTxn: one partition that may not be written keeps all others out."""

    def handle(services: Services, request: Request) -> Steps:
        value = request.value
        denied: frozenset[str] = frozenset()
        if request.api_version >= _FIRST_FROM_BROKERS:
            if not may(authorizer, request, _AMONG_BROKERS):
                deny(request, CLUSTER_AUTHORIZATION_FAILED)
                return
        else:
            transactional_id = value["v3_and_below_transactional_id"]
            if not may(authorizer, request, _WRITE_ID, transactional_id):
                deny(request, TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
                return
            names = counted(
                topic["name"]
                for topic in value["v3_and_below_topics"]
                if topic["name"] not in INTERNAL_TOPICS
            )
            denied = yield from denied_in_steps(
                authorizer, request, Operation.WRITE, ResourceType.TOPIC, names
            )
        if denied:
            yield from _not_attempted(services, request, denied)
            return
        steps = inner(services, request)
        if steps is not None:
            yield from steps

    return handle


def _not_attempted(services: Services, request: Request, denied: frozenset[str]) -> Steps:
    path = "results_by_topic_v3_and_below"
    results = request.array(path)
    for topic in request.value["v3_and_below_topics"]:
        name = topic["name"]
        partitions = request.array(path, "results_by_partition")
        found = services.registry.topic(name)
        count = 0 if found is None else found.partitions
        for index in dict.fromkeys(topic["partitions"]):
            if name in denied or name in INTERNAL_TOPICS:
                code = TOPIC_AUTHORIZATION_FAILED
            elif not 0 <= index < count:
                code = UNKNOWN_TOPIC_OR_PARTITION
            else:
                code = OPERATION_NOT_ATTEMPTED
            entry: dict[str, Any] = {"partition_index": index, "partition_error_code": code}
            partitions.append(entry)
            yield None
        results.append({"name": name, "results_by_partition": partitions})
        yield None
    request.respond({path: results}, TOPIC_AUTHORIZATION_FAILED)
