"""Serves the APIs 83 to 87, by which brokers initialize, read, write and delete the states of share
partitions at the share coordinator (KIP-932).

A request without a group, or with a topic without partitions, gets no results, as in Kafka. Each
share partition has its own error code. The response is sent when all changes are stable.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from broker.apis.shared.authorization import TEXTS, is_allowed, refuse
from broker.apis.shared.gather import Gather
from broker.net.request import Request, ServedApi, Steps
from broker.net.required_acls import AMONG_BROKERS, CLUSTER_ACTION
from broker.share.state_messages import FORMS, Form
from protocol.errors import CLUSTER_AUTHORIZATION_FAILED, NONE
from share.persister.calls import StateReply
from share.values import SharePartitionKey

if TYPE_CHECKING:
    from broker.apis.shared.services import Services


def served(call: type) -> ServedApi:
    """Returns the row of the API whose requests become calls of the type ``call``."""
    form = FORMS[call]
    versions = form.api.versions
    return ServedApi(
        form.api,
        versions.start,
        versions.stop - 1,
        partial(_handle, form),
        rights=AMONG_BROKERS,
    )


def _handle(form: Form, services: Services, request: Request) -> Steps | None:
    if is_allowed(services, request, CLUSTER_ACTION):
        return _submit(form, services, request)
    refuse(request, CLUSTER_AUTHORIZATION_FAILED, partial(_denial, form))
    return None


def _submit(form: Form, services: Services, request: Request) -> Steps:
    value = request.value
    group_id, topics = value["group_id"], value["topics"]
    if not group_id or not all(topic["partitions"] for topic in topics):
        request.respond({"results": []})
        return
    gather: Gather[StateReply] = Gather()
    for topic in topics:
        for entry in topic["partitions"]:
            key = SharePartitionKey(group_id, topic["topic_id"], entry["partition"])
            services.share_coordinator.submit(form.call(gather.ticket(), key, entry))
            yield from gather.sent()
    yield from gather.rest()
    replies = iter(gather.replies)
    results = request.array("results")
    for topic in topics:
        partitions = request.array("results", "partitions")
        for entry in topic["partitions"]:
            partitions.append(form.entry(entry["partition"], next(replies)))
            yield None
        results.append({"topic_id": topic["topic_id"], "partitions": partitions})
        yield None
    worst = next((reply.error_code for reply in gather.replies if reply.error_code), NONE)
    request.respond({"results": results}, worst)


def _denial(form: Form, value: dict[str, Any]) -> dict[str, Any]:
    code = CLUSTER_AUTHORIZATION_FAILED
    reply = StateReply(code, TEXTS[code])

    def entries(topic: dict[str, Any]) -> Iterator[dict[str, Any]]:
        for each in topic["partitions"]:
            yield form.entry(each["partition"], reply)

    return {
        "results": [
            {"topic_id": topic["topic_id"], "partitions": list(entries(topic))}
            for topic in value["topics"]
        ]
    }
