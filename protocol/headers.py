"""Request and response headers. In a frame, the header follows the length and precedes the body.

A request header has version 0 (without a client id, only for ControlledShutdown v0), 1, or 2 (with
tagged fields). A response header has version 0 or 1 (with tagged fields). A flexible body has a
flexible header. The exception is the response to ApiVersions, whose header always has version 0,
because the client does not know yet which versions the broker supports (KIP-511).
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from protocol.api_keys import API_VERSIONS, CONTROLLED_SHUTDOWN, FIRST_FLEXIBLE
from protocol.buffer import Buffer
from protocol.errors import ProtocolError
from protocol.wire import read_nullable_string, skip_tags, write_nullable_string

MIN_REQUEST_BYTES: Final = 8
"""The size in bytes of the shortest request header: API key, version and correlation id."""
_NEVER: Final = 1 << 15

_FIXED: Final = struct.Struct(">hhi")
_INT32: Final = struct.Struct(">i")


class RequestHeader(NamedTuple):
    """A request header. ``position`` is the position of the body in the frame."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    position: int


def request_header_version(api_key: int, api_version: int) -> int:
    """Returns the version of a request header: 0, 1 or 2.

    An unknown API key has header version 1. For an unknown version of a known key, the header
    version is that of the nearest known version.
    """
    if api_version >= FIRST_FLEXIBLE.get(api_key, _NEVER):
        return 2
    return 0 if api_key == CONTROLLED_SHUTDOWN and api_version == 0 else 1


def response_header_version(api_key: int, api_version: int) -> int:
    """Returns the version of a response header: 0 or 1."""
    if api_key == API_VERSIONS:
        return 0
    return int(api_version >= FIRST_FLEXIBLE.get(api_key, _NEVER))


def decode_request_header(frame: Buffer) -> RequestHeader:
    """Decodes the header at the start of a frame that has no length field. Raises ProtocolError if
    the header is invalid.

    Unknown API keys and versions are accepted here, because the dispatcher replies to them.
    """
    try:
        api_key, api_version, correlation_id = _FIXED.unpack_from(frame)
        version = request_header_version(api_key, api_version)
        position = _FIXED.size
        client_id = None
        if version:
            client_id, position = read_nullable_string(frame, position)
        if version == 2:
            # Headers have no known tags; the tags of a newer client are skipped.
            position = skip_tags(frame, position)
    except (struct.error, IndexError):
        raise ProtocolError("the request ends within its header") from None
    except UnicodeDecodeError:
        raise ProtocolError("the client id is not UTF-8") from None
    return RequestHeader(api_key, api_version, correlation_id, client_id, position)


def encode_request_header(
    api_key: int, api_version: int, correlation_id: int, client_id: str | None
) -> bytes:
    version = request_header_version(api_key, api_version)
    out = bytearray(_FIXED.pack(api_key, api_version, correlation_id))
    if version:
        write_nullable_string(out, client_id)
    if version == 2:
        out.append(0)
    return bytes(out)


def response_header(api_key: int, api_version: int, correlation_id: int) -> bytes:
    data = _INT32.pack(correlation_id)
    return data + b"\0" if response_header_version(api_key, api_version) else data


def decode_response_header(api_key: int, api_version: int, frame: Buffer) -> tuple[int, int]:
    """Returns the correlation id of a response, and the position of its body in the frame."""
    try:
        (correlation_id,) = _INT32.unpack_from(frame)
        position = _INT32.size
        if response_header_version(api_key, api_version):
            position = skip_tags(frame, position)
    except (struct.error, IndexError):
        raise ProtocolError("the response ends within its header") from None
    return correlation_id, position
