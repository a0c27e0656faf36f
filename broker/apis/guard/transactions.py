"""The APIs of producers: InitProducerId and AddPartitionsToTxn."""

from __future__ import annotations

from collections.abc import Set
from typing import TYPE_CHECKING, Any

from broker.apis.guard.denials import deny
from broker.apis.guard.judging import counted, may, own_denied_in_steps
from broker.apis.guard.needs_met import error_of
from broker.net.needs import Rights
from broker.net.request import Handler, Request, Steps
from broker.topics.registry import INTERNAL_TOPICS
from protocol.errors import (
    OPERATION_NOT_ATTEMPTED,
    TOPIC_AUTHORIZATION_FAILED,
    UNKNOWN_TOPIC_OR_PARTITION,
)

if TYPE_CHECKING:
    from broker.apis.services import Services
    from broker.rights.authorizer import Authorizer

_FIRST_FROM_BROKERS = 4


def init_producer_id(inner: Handler, authorizer: Authorizer, rights: Rights) -> Handler:
    """InitProducerId: WRITE of the id; without one, who may write any topic at all (KIP-679)."""
    write_id, write_any = rights.own
    idempotent_write = write_any.unless
    assert idempotent_write is not None

    def handle(services: Services, request: Request) -> Steps | None:
        transactional_id = request.value["transactional_id"]
        if transactional_id is not None:
            if not may(authorizer, request, write_id, transactional_id):
                deny(request, error_of(write_id))
                return None
        elif not may(authorizer, request, idempotent_write):
            return in_steps(services, request)
        return inner(services, request)

    def in_steps(services: Services, request: Request) -> Steps:
        is_allowed = yield from authorizer.allows_somewhere(
            request.connection, write_any.operation, write_any.kind, api=request.served.api.name
        )
        if not is_allowed:
            deny(request, error_of(idempotent_write))
            return
        yield from inner(services, request) or ()

    return handle


def add_partitions_to_txn(inner: Handler, authorizer: Authorizer, rights: Rights) -> Handler:
    """AddPartitionsToTxn: one partition that may not be written keeps all others out."""
    write_id, write_topic, among_brokers = rights.own

    def handle(services: Services, request: Request) -> Steps:
        value = request.value
        denied: Set[str] = frozenset()
        if request.api_version >= _FIRST_FROM_BROKERS:
            if not may(authorizer, request, among_brokers):
                deny(request, error_of(among_brokers))
                return
        else:
            transactional_id = value["v3_and_below_transactional_id"]
            if not may(authorizer, request, write_id, transactional_id):
                deny(request, error_of(write_id))
                return
            names = yield from counted(
                topic["name"]
                for topic in value["v3_and_below_topics"]
                if topic["name"] not in INTERNAL_TOPICS
            )
            denied = yield from own_denied_in_steps(authorizer, request, write_topic, names)
        if denied:
            yield from _not_attempted(services, request, denied)
            return
        yield from inner(services, request) or ()

    return handle


def _not_attempted(services: Services, request: Request, denied: Set[str]) -> Steps:
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
