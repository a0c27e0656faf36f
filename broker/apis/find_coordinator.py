"""FindCoordinator (10): the coordinator of a group, which is always this broker.

v0; v1 key type, error message, throttle time; v3 flexible; v4 many keys (KIP-699); v5 a new error
code that we do not send; v6 share-group keys (KIP-932). Transactions and share groups are not
served yet: share-group keys get INVALID_REQUEST, and keys of transactions
TRANSACTIONAL_ID_AUTHORIZATION_FAILED, the one error that is final to librdkafka too (2.16 repeats
the request for ever after any other).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import structlog

from broker.config.config_value import BadValue
from broker.net.request import Request, ServedApi, Steps
from protocol.errors import (
    COORDINATOR_NOT_AVAILABLE,
    INVALID_REQUEST,
    NONE,
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
)
from protocol.messages.find_coordinator import API

if TYPE_CHECKING:
    from broker.apis.services import Services

logger = structlog.get_logger(__name__)

_GROUP = 0
_KEY_TYPES = {1: "transaction", 2: "share group"}
_ADVICE = {
    1: "transactions are not served: leave transactional.id out",
    2: "share groups are not served: use a consumer",
}


def _handle(services: Services, request: Request) -> Steps:
    request.connection.lookups += 1
    value = request.value
    batched = request.api_version >= 4
    keys = value["coordinator_keys"]
    made = True
    if value["key_type"] == _GROUP and not services.groups.hosted_shards:
        making = asyncio.ensure_future(_offsets_topic_is_made(services))
        yield making
        made = making.result()
    if batched:
        answers = request.array("coordinators")
        worst = NONE
        for key in keys:
            answer = _find(services, request, value["key_type"], key, made)
            worst = max(worst, answer["error_code"])
            answers.append(answer)
            yield None
        request.respond({"throttle_time_ms": 0, "coordinators": answers}, worst)
    else:
        answer = _find(services, request, value["key_type"], value["key"], made)
        del answer["key"]
        if answer["error_code"] == NONE:
            answer["error_message"] = "NONE"  # what Kafka says there, and in v4 and up ""
        request.respond({"throttle_time_ms": 0, **answer})


async def _offsets_topic_is_made(services: Services) -> bool:
    try:
        await services.topics.ensure_offsets_topic()
    except (BadValue, OSError) as error:
        logger.error("__consumer_offsets can't be created", error=str(error))
        return False
    return True


def _find(
    services: Services, request: Request, key_type: int, key: str, made: bool
) -> dict[str, Any]:
    if key_type != _GROUP:
        kind = _KEY_TYPES.get(key_type, f"type {key_type}")
        code = TRANSACTIONAL_ID_AUTHORIZATION_FAILED if key_type == 1 else INVALID_REQUEST
        advice = _ADVICE.get(key_type, f"there is no coordinator for keys of {kind}")
        services.unsupported.asked(request.connection, API.name, advice)
        return _error(key, code, f"This broker has no coordinator for {kind} keys.")
    if not made:
        message = "The offsets topic could not be created; see the broker's log."
        return _error(key, COORDINATOR_NOT_AVAILABLE, message)
    services.seekers.asked(request.connection, key)
    node = services.advertised.node(request)
    return {
        "key": key,
        "node_id": node.node_id,
        "host": node.host,
        "port": node.port,
        "error_code": NONE,
        "error_message": "",
    }


def _error(key: str, error_code: int, message: str) -> dict[str, Any]:
    return {
        "key": key,
        "node_id": -1,
        "host": "",
        "port": -1,
        "error_code": error_code,
        "error_message": message,
    }


SERVED = ServedApi(
    API,
    0,
    6,
    _handle,
    "keys of transactions get TRANSACTIONAL_ID_AUTHORIZATION_FAILED, keys of share groups"
    " INVALID_REQUEST; both are final errors",
)
