"""ElectLeaders (43) in a cluster: preferred leaders, or unclean ones (KIP-183, KIP-460).

v1 unclean elections and a top-level error; v2 flexible. As in Kafka, a request for all partitions
is told of those alone that were elected or could not be, and NOT_CONTROLLER is said of each
partition that was named.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.apis.create_topics import NOT_CONTROLLER_MESSAGE
from broker.apis.elect_leaders import PREFERRED, UNCLEAN
from broker.apis.to_controller import by_topic, error_fields, host_of, places
from broker.net.request import Request, ServedApi
from controller.calls import ElectLeaders
from controller.outcome import ElectLeadersReply
from protocol.errors import INVALID_REQUEST, NONE
from protocol.messages.elect_leaders import API

if TYPE_CHECKING:
    from broker.apis.services import Services


def _handle(services: Services, request: Request) -> None:
    value = request.value
    kind = value.get("election_type", PREFERRED)
    if kind not in (PREFERRED, UNCLEAN):
        request.respond({"error_code": INVALID_REQUEST, "replica_election_results": []})
        return
    topics = value["topic_partitions"]
    asked = None if topics is None else places(topics, "topic", "partitions")
    request.context = asked
    request.encode = _answer
    host_of(services).submit(ElectLeaders(request, kind == UNCLEAN, asked))


def _answer(request: Request, reply: ElectLeadersReply) -> None:
    error_code, results = reply.error_code, reply.partitions
    if error_code != NONE and request.context is not None:
        results = dict.fromkeys(request.context, (error_code, NOT_CONTROLLER_MESSAGE))
        error_code = NONE
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


SERVED = ServedApi(API, 0, 2, _handle)
