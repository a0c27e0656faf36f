"""Builds error responses for cases that the protocol tables do not determine.

- Metadata lists the brokers. Without them the client could not connect to any broker.
- An incremental Fetch request names only changed partitions. The error response contains all
  partitions of the session, and the session continues.
- An ApiVersions request of an unsupported version is answered in version 0.
- After a Produce request with acks=0 the connection is closed.
- If an empty list in a request selects everything, the response names all existing objects.
- AlterReplicaLogDirs requests group topics by directory, but the responses do not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from broker.apis.alter_replica_log_dirs import error_answer as log_dirs_error_answer
from broker.apis.fetch.sessions import (
    CONSUMER,
    FINAL_EPOCH,
    INITIAL_EPOCH,
    FetchSessionError,
    Wanted,
)
from broker.net.error_answers import error_answer
from broker.net.response import unsupported_api_versions
from protocol import errors
from protocol.messages.alter_replica_log_dirs import API as ALTER_REPLICA_LOG_DIRS
from protocol.messages.api_versions import API as API_VERSIONS
from protocol.messages.describe_log_dirs import API as DESCRIBE_LOG_DIRS
from protocol.messages.describe_topic_partitions import API as DESCRIBE_TOPIC_PARTITIONS
from protocol.messages.fetch import API as FETCH
from protocol.messages.metadata import API as METADATA
from protocol.messages.produce import API as PRODUCE

if TYPE_CHECKING:
    from broker.apis.shared.services import Services
    from broker.net.request import Request

_FIRST_WITH_TOPIC_IDS = 13
_FIRST_WITH_REPLICA_STATE = 15
_OF_SESSIONS = frozenset(
    {
        errors.FETCH_SESSION_ID_NOT_FOUND,
        errors.INVALID_FETCH_SESSION_EPOCH,
        errors.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)
"""The errors that a Fetch response has once for the whole request. All other errors are set in each
partition."""

_Respond = Callable[["Services", "Request", int], None]


def respond_with(services: Services, request: Request, error_code: int) -> None:
    """Answers a request with the error ``error_code``. Raises ProtocolError if the request can't be
    decoded."""
    respond = _ODD.get(request.served.api.key)
    if respond is None:
        request.respond(_plain(request, error_code, request.value), error_code)
    else:
        respond(services, request, error_code)


def partitions_of_session(services: Services, value: Mapping[str, Any]) -> list[Wanted]:
    """Returns all partitions of the session that an incremental Fetch request continues; an empty
    list for any other request."""
    if value["session_epoch"] in (INITIAL_EPOCH, FINAL_EPOCH):
        return []
    session = services.fetch_sessions.get(value["session_id"])
    return [] if session is None else list(session.partitions.values())


def _plain(request: Request, error_code: int, asked: Mapping[str, Any]) -> dict[str, Any]:
    text = f"{errors.NAMES.get(error_code, error_code)}, requested by the test"
    return error_answer(request.served.api, request.api_version, asked, error_code, text)


def _alter_replica_log_dirs(services: Services, request: Request, error_code: int) -> None:  # noqa: ARG001
    request.respond(log_dirs_error_answer(request.value, error_code), error_code)


def _produce(services: Services, request: Request, error_code: int) -> None:  # noqa: ARG001
    value = request.value
    if value["acks"] == 0:
        request.respond_nothing(error_code)
        request.connection.drain()
    else:
        request.respond(_plain(request, error_code, value), error_code)


def _api_versions(services: Services, request: Request, error_code: int) -> None:  # noqa: ARG001
    request.check()
    if error_code == errors.UNSUPPORTED_VERSION:
        row = request.served
        correlation_id = request.correlation_id
        request.complete(
            unsupported_api_versions(correlation_id, row.min_version, row.max_version), error_code
        )
    else:
        request.respond(_plain(request, error_code, {}), error_code)


def _metadata(services: Services, request: Request, error_code: int) -> None:
    value = request.value
    asked = value["topics"]
    version = request.api_version
    names_all = asked is None or (version == 0 and not asked)
    registry = services.registry
    topics = [
        {"name": topic.name, "topic_id": topic.topic_id} for topic in registry.topics.values()
    ]
    answer = _plain(request, error_code, {**value, "topics": topics if names_all else asked})
    listener = services.advertised.listener(request)
    answer["brokers"] = [each._asdict() for each in services.cluster.brokers(listener)]
    answer["cluster_id"] = registry.cluster_id
    answer["controller_id"] = services.cluster.controller_id
    request.respond(answer, error_code)


def _topic_partitions(services: Services, request: Request, error_code: int) -> None:
    value = request.value
    asked = value["topics"] or [{"name": name} for name in services.registry.topics]
    request.respond(_plain(request, error_code, {**value, "topics": asked}), error_code)


def _log_dirs(services: Services, request: Request, error_code: int) -> None:
    answer = _plain(request, error_code, request.value)
    directory = services.config.directories[0]
    answer["results"] = [{"error_code": error_code, "log_dir": directory, "topics": []}]
    request.respond(answer, error_code)


def _fetch(services: Services, request: Request, error_code: int) -> None:
    value = request.value
    if error_code in _OF_SESSIONS:
        request.respond({"error_code": error_code, "responses": []}, error_code)
        return
    session_id, topics = 0, value["topics"]
    if value["session_epoch"] not in (INITIAL_EPOCH, FINAL_EPOCH):
        try:
            session_id, topics = _next_in_session(services, request, value)
        except FetchSessionError as error:
            request.respond({"error_code": error.error_code, "responses": []}, error.error_code)
            return
    answer = _plain(request, error_code, {**value, "topics": topics})
    if answer["responses"]:
        answer["error_code"] = errors.NONE
    answer["session_id"] = session_id
    request.respond(answer, error_code)


def _next_in_session(
    services: Services, request: Request, value: Mapping[str, Any]
) -> tuple[int, list[dict[str, Any]]]:
    """Applies a Fetch request to its fetch session, and advances the epoch of the session. Returns
    the session id and all topics of the session, in the form of a full Fetch request."""
    uses_ids = request.api_version >= _FIRST_WITH_TOPIC_IDS
    name = "topic_id" if uses_ids else "topic"
    wanted = [
        Wanted(
            topic[name],
            each["partition"],
            each["fetch_offset"],
            each["partition_max_bytes"],
            each["current_leader_epoch"],
            each["last_fetched_epoch"],
        )
        for topic in value["topics"]
        for each in topic["partitions"]
    ]
    forgotten = [
        (topic[name], index)
        for topic in value["forgotten_topics_data"]
        for index in topic["partitions"]
    ]
    state = value["replica_state"] if request.api_version >= _FIRST_WITH_REPLICA_STATE else value
    owner = request.connection.principal, max(state["replica_id"], CONSUMER)
    session = services.fetch_sessions.resume(
        value["session_id"],
        owner,
        value["session_epoch"],
        wanted,
        forgotten,
        uses_ids,
        services.time.now().mono_ms,
    )
    if session is None:
        return 0, value["topics"]
    topics: dict[Any, dict[str, Any]] = {}
    for entry in session.partitions.values():
        topic = topics.setdefault(entry.topic, {name: entry.topic, "partitions": []})
        topic["partitions"].append({"partition": entry.partition})
    return session.session_id, list(topics.values())


_ODD: Mapping[int, _Respond] = {
    ALTER_REPLICA_LOG_DIRS.key: _alter_replica_log_dirs,
    PRODUCE.key: _produce,
    FETCH.key: _fetch,
    METADATA.key: _metadata,
    API_VERSIONS.key: _api_versions,
    DESCRIBE_LOG_DIRS.key: _log_dirs,
    DESCRIBE_TOPIC_PARTITIONS.key: _topic_partitions,
}
