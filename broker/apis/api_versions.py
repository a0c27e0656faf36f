"""ApiVersions (18): what this broker serves, derived from the table of served APIs.

v0; v1 throttle time; v3 flexible, the client's name and version, features (none here); v4 allows a
minimum feature version of 0. An unknown version is answered with version 0 and UNSUPPORTED_VERSION
by the connection, before any handler.
"""

from __future__ import annotations

import re
import struct
from functools import cache
from typing import TYPE_CHECKING

from broker.net.request import Request, ServedApi
from protocol.errors import INVALID_REQUEST
from protocol.headers import response_header
from protocol.messages.api_versions import API

if TYPE_CHECKING:
    from broker.apis.services import Services

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
"""What a client's name and version must look like (KIP-511)."""


def _handle(services: Services, request: Request) -> None:
    version = request.api_version
    request.connection.lookups += 1
    if version >= 3:
        value = request.value
        for name in ("client_software_name", "client_software_version"):
            if not _SOFTWARE.fullmatch(value[name]):
                request.respond({"error_code": INVALID_REQUEST, "api_keys": []})
                return
        name, its_version = value["client_software_name"], value["client_software_version"]
        request.connection.software = f"{name} {its_version}"
    body = _body(version, tuple(services.served.values()))
    header = response_header(API.key, version, request.correlation_id)
    request.complete(b"".join((struct.pack(">i", len(header) + len(body)), header, body)))


@cache
def _body(version: int, rows: tuple[ServedApi, ...]) -> bytes:
    keys = [
        {"api_key": row.api.key, "min_version": row.min_version, "max_version": row.max_version}
        for row in rows
    ]
    return API.encode_response(version, {"error_code": 0, "api_keys": keys})


SERVED = ServedApi(API, 0, 4, _handle)
