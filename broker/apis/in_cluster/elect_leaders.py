"""ElectLeaders (43) in a cluster: preferred or unclean leader elections (KIP-183, KIP-460).

Versions: v1 adds unclean elections and a top-level error; v2 is flexible. As in Kafka, the response
to a request for all partitions lists only partitions whose election was attempted. As in Kafka, a
broker that is not the controller returns NOT_CONTROLLER for each requested partition, not at the
top level. The response waits until this broker has learned the new leaders.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from broker.apis.create_topics import NOT_CONTROLLER_MESSAGE
from broker.apis.elect_leaders import ALTER, PREFERRED, UNCLEAN, denial
from broker.apis.shared.authorization import is_allowed, refuse
from broker.apis.shared.to_controller import (
    Place,
    by_topic,
    cache_of,
    error_fields,
    host_of,
    places,
)
from broker.cluster.metadata_cache import MetadataCache
from broker.net.request import Request, ServedApi
from broker.net.required_acls import Rights
from broker.topics.cluster_view import NO_LEADER
from broker.topics.ticket import Awaited
from controller.calls import ElectLeaders
from controller.outcome import ElectLeadersReply
from protocol.errors import (
    CLUSTER_AUTHORIZATION_FAILED,
    INVALID_REQUEST,
    NONE,
    REQUEST_TIMED_OUT,
)
from protocol.messages.elect_leaders import API

if TYPE_CHECKING:
    from broker.apis.shared.services import Services


def _handle(services: Services, request: Request) -> None:
    if not is_allowed(services, request, ALTER):
        refuse(request, CLUSTER_AUTHORIZATION_FAILED, denial)
        return
    value = request.value
    kind = value.get("election_type", PREFERRED)
    if kind not in (PREFERRED, UNCLEAN):
        request.respond({"error_code": INVALID_REQUEST, "replica_election_results": []})
        return
    request.answer_later(_elect(services, request, kind == UNCLEAN))


async def _elect(services: Services, request: Request, unclean: bool) -> None:
    value = request.value
    topics = value["topic_partitions"]
    asked = None if topics is None else places(topics, "topic", "partitions")
    ticket: Awaited[ElectLeadersReply] = Awaited()
    host_of(services).submit(ElectLeaders(ticket, unclean, asked))
    error_code, found = await ticket.reply
    results = dict(found)
    if error_code != NONE and asked is not None:
        results = dict.fromkeys(asked, (error_code, NOT_CONTROLLER_MESSAGE))
        error_code = NONE
    cache = cache_of(services)
    wanted = {
        place: partial(_is_led, cache, place, unclean)
        for place, (code, _) in results.items()
        if code == NONE
    }
    if wanted:
        timeout = services.time.within(max(0, value["timeout_ms"]) / 1000)
        for place in await cache.until(wanted, timeout):
            results[place] = (
                REQUEST_TIMED_OUT,
                "The timeout passed before this broker learned the new leader. The election may"
                " still succeed: describe the topic to see the leader.",
            )
    _answer(request, error_code, results)


def _is_led(cache: MetadataCache, place: Place, unclean: bool) -> bool:
    """Returns True if this broker's metadata shows the result of the election: any leader after an
    unclean election, the preferred leader after a preferred election. Also returns True if the
    topic was deleted."""
    found = cache.partition(*place)
    if found is None:
        return True  # the topic was deleted
    return found.leader != NO_LEADER if unclean else found.leader == found.replicas[0]


def _answer(request: Request, error_code: int, results: Mapping[Place, tuple[int, str]]) -> None:
    fields = {
        place: {"partition_id": place[1], **error_fields(error)} for place, error in results.items()
    }
    request.respond(
        {
            "error_code": error_code,
            "replica_election_results": [
                {"topic": topic, "partition_result": partitions}
                for topic, partitions in by_topic(fields).items()
            ],
        },
        next((code for code, _ in results.values() if code), error_code),
    )


SERVED = ServedApi(API, 0, 2, _handle, rights=Rights((ALTER,)))
