"""Responses that are built outside the handlers."""

from __future__ import annotations

import struct
from typing import Any

import structlog

from broker.net.peer import display_client_id
from broker.net.request import Request
from protocol.errors import UNSUPPORTED_VERSION
from protocol.headers import response_header

logger = structlog.get_logger(__name__)

_UNSUPPORTED = struct.Struct(">iihihhh")


def unsupported_api_versions(correlation_id: int, minimum: int, maximum: int) -> bytes:
    """Builds the response to an ApiVersions request of an unknown version: a v0 response with the
    supported range (KIP-511)."""
    size = _UNSUPPORTED.size - 4
    return _UNSUPPORTED.pack(size, correlation_id, UNSUPPORTED_VERSION, 1, 18, minimum, maximum)


def report_failure(request: Request) -> None:
    """Logs the current exception, which a handler of ``request`` raised, as an internal error."""
    logger.exception(
        "request failed: internal error",
        api=request.served.api.name,
        api_version=request.api_version,
        peer=request.connection.peer,
        client_id=display_client_id(request.client_id),
    )


def error_frame(request: Request, error_code: int) -> bytes | None:
    """Returns the frame of a response that contains only an error of the whole request; None if the
    response has no field for such an error."""
    api = request.served.api
    version = request.api_version
    value: dict[str, Any] = {"error_code": error_code}
    try:
        body = api.encode_response(version, value)
        if api.decode_response(version, body, 0).get("error_code") != error_code:
            return None
    except Exception:  # noqa: BLE001 - the connection is closed instead, whatever the codec raises
        return None
    header = response_header(api.key, version, request.correlation_id)
    return struct.pack(">i", len(header) + len(body)) + header + body
