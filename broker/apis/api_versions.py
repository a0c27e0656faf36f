"""ApiVersions (18): the APIs and versions that this broker serves, from the table of served APIs.

Versions: v1 adds the throttle time; v3 is flexible, and adds the client's name and version and the
features (KIP-584). v4 adds supported features with minimum 0, which Java clients of v3 can't parse
(KAFKA-17011). v5 adds the cluster id and the node id that the client expects (KIP-1242). A request
of an unknown version gets a response of version 0 with UNSUPPORTED_VERSION from the connection,
without a handler.
"""

from __future__ import annotations

import re
import struct
from functools import cache
from typing import TYPE_CHECKING, Any

from broker.config.config_table import (
    GROUP_VERSION,
    GROUP_VERSION_MAX,
    SHARE_VERSION,
    SHARE_VERSION_MAX,
    STREAMS_VERSION,
    STREAMS_VERSION_MAX,
    TRANSACTION_VERSION,
    TRANSACTION_VERSION_MAX,
)
from broker.net.request import Request, ServedApi
from broker.net.required_acls import nothing
from protocol.errors import INVALID_REQUEST, NONE, REBOOTSTRAP_REQUIRED
from protocol.headers import response_header
from protocol.messages.api_versions import API
from protocol.messages.consumer_group_heartbeat import API as CONSUMER_GROUP_HEARTBEAT
from protocol.messages.share_group_heartbeat import API as SHARE_GROUP_HEARTBEAT
from protocol.messages.streams_group_heartbeat import API as STREAMS_GROUP_HEARTBEAT

if TYPE_CHECKING:
    from broker.apis.shared.services import Services

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
"""The format of a client's name and version (KIP-511)."""

_STANDALONE: tuple[tuple[str, int], ...] = (
    (GROUP_VERSION, GROUP_VERSION_MAX),
    (SHARE_VERSION, SHARE_VERSION_MAX),
    (STREAMS_VERSION, STREAMS_VERSION_MAX),
    (TRANSACTION_VERSION, TRANSACTION_VERSION_MAX),
)
"""The features of a standalone broker, each with its highest level."""
_CLUSTER = (
    (CONSUMER_GROUP_HEARTBEAT.key, _STANDALONE[0]),
    (SHARE_GROUP_HEARTBEAT.key, _STANDALONE[1]),
    (STREAMS_GROUP_HEARTBEAT.key, _STANDALONE[2]),
)
"""The features that a broker in a cluster can support. Each entry has an API key and a feature: the
broker supports the feature if it serves this API. transaction.version is not listed, because
producers in a cluster use its level 0."""
_ANY_NODE = -1
"""The expected node id in a request that any broker may answer, such as the first request to a
bootstrap address."""
_KNOWS_MINIMUM_0 = 4
"""Clients that send this version of ApiVersions, or a later one, can parse features whose minimum
version is 0. Earlier versions get no supported features."""


def _handle(services: Services, request: Request) -> None:
    version = request.api_version
    request.connection.lookups += 1
    if version >= 3:
        value = request.value
        error_code = _error(services, value)
        if error_code:
            request.respond({"error_code": error_code, "api_keys": []})
            return
        name, its_version = value["client_software_name"], value["client_software_version"]
        request.connection.software = f"{name} {its_version}"
    features = services.registry.features
    supported = _STANDALONE
    if services.controller is not None:
        supported = tuple([each for key, each in _CLUSTER if key in services.served])
    rows = tuple(services.served.values())
    body = _body(version, rows, supported, features.epoch, tuple(features.levels.items()))
    header = response_header(API.key, version, request.correlation_id)
    request.complete(b"".join((struct.pack(">i", len(header) + len(body)), header, body)))


def _error(services: Services, value: dict[str, Any]) -> int:
    """Returns the top-level error code of the response, or NONE.

    REBOOTSTRAP_REQUIRED goes to a client that expected another cluster or another node at this
    address. Its metadata is outdated, and it must start again from its bootstrap addresses.
    """
    names = value["client_software_name"], value["client_software_version"]
    cluster_id, node_id = value["cluster_id"], value["node_id"]
    if not all(map(_SOFTWARE.fullmatch, names)) or (cluster_id is None) != (node_id == _ANY_NODE):
        return INVALID_REQUEST
    registry = services.registry
    if cluster_id is None or (cluster_id, node_id) == (registry.cluster_id, registry.node_id):
        return NONE
    return REBOOTSTRAP_REQUIRED


@cache
def _body(
    version: int,
    rows: tuple[ServedApi, ...],
    supported: tuple[tuple[str, int], ...],
    epoch: int,
    levels: tuple[tuple[str, int], ...],
) -> bytes:
    keys = [
        {"api_key": row.api.key, "min_version": row.min_version, "max_version": row.max_version}
        for row in rows
        if row.is_offered
    ]
    finalized = [
        {"name": name, "max_version_level": level, "min_version_level": level}
        for name, level in levels
        if level > 0
    ]
    return API.encode_response(
        version,
        {
            "error_code": 0,
            "api_keys": keys,
            "supported_features": [
                {"name": name, "min_version": 0, "max_version": most}
                for name, most in supported
                if version >= _KNOWS_MINIMUM_0
            ],
            "finalized_features_epoch": epoch,
            "finalized_features": finalized,
        },
    )


SERVED = ServedApi(
    API,
    0,
    5,
    _handle,
    rights=nothing("clients send ApiVersions before the login; the response has only API versions"),
)
