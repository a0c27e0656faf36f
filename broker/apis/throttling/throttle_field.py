"""Sets ``throttle_time_ms`` in encoded responses.

Handlers set the field to 0. In most APIs the field is the first one, and its bytes are overwritten.
In Produce it is the last field. If the field has another position, the response is encoded again.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from functools import cache
from itertools import takewhile
from typing import Final, cast

from broker.net.request import Body, Chunk
from log.values import Slice
from protocol.api_keys import PRODUCE
from protocol.buffer import Buffer
from protocol.headers import response_header_version
from protocol.messages import BY_KEY
from protocol.schema import Primitive, version_range

NAME: Final = "throttle_time_ms"
_INT32 = struct.Struct(">i")
_LENGTH_AND_CORRELATION: Final = 8


def header_bytes(api_key: int, version: int) -> int:
    """Returns the number of bytes before the body of a response: length field and header."""
    return _LENGTH_AND_CORRELATION + response_header_version(api_key, version)


@cache
def has_field(api_key: int, version: int) -> bool:
    """Returns True if responses of this version have the field ``throttle_time_ms``."""
    return any(
        field.name == NAME and version in version_range(field.versions)
        for field in BY_KEY[api_key].response
    )


@cache
def fixed_place(api_key: int, version: int) -> int | None:
    """Returns the position of ``throttle_time_ms`` in every frame of this version; None if the
    position varies or the version lacks the field."""
    place = header_bytes(api_key, version)
    for field in BY_KEY[api_key].response:
        if version not in version_range(field.versions) or field.tag is not None:
            continue
        if field.name == NAME:
            return place
        if not isinstance(field.type, Primitive) or not field.type.size:
            return None
        place += field.type.size
    return None


def with_throttle(frame: Body, api_key: int, version: int, wait_ms: int) -> Body:
    """Returns the response with the throttle time set. A response without the field is returned
    unchanged."""
    if not frame or not has_field(api_key, version):
        return frame
    place = fixed_place(api_key, version)
    if place is not None:
        return _overwritten(frame, place, wait_ms)
    whole = head_of(frame)  # only Fetch has parts in files
    end = len(whole) - int(BY_KEY[api_key].is_flexible(version))
    if api_key == PRODUCE and whole[end - _INT32.size :].count(0) == len(whole) - end + 4:
        # All zero to the end: no tagged field follows, since its last values would not be all zero.
        return whole[: end - _INT32.size] + _INT32.pack(wait_ms) + whole[end:]
    return _encoded_again(whole, api_key, version, wait_ms)


def head_of(frame: Body) -> bytes:
    """Returns the bytes of a response before the first part that is in a file; the whole response
    if no part is in a file."""
    if isinstance(frame, bytes):
        return frame
    parts = takewhile(lambda part: not isinstance(part, Slice), frame)
    return b"".join(cast("Iterable[Buffer]", parts))


def size_of(frame: Body) -> int:
    """Returns the size in bytes of a response, including its length field."""
    if isinstance(frame, bytes):
        return len(frame)
    return sum(part.length if isinstance(part, Slice) else len(part) for part in frame)


def _overwritten(frame: Body, place: int, wait_ms: int) -> Body:
    if isinstance(frame, bytes):
        return frame[:place] + _INT32.pack(wait_ms) + frame[place + _INT32.size :]
    chunks: list[Chunk] = []
    for part in frame:
        length = part.length if isinstance(part, Slice) else len(part)
        if 0 <= place <= length - _INT32.size and not isinstance(part, Slice):
            throttled = bytearray(part)
            _INT32.pack_into(throttled, place, wait_ms)
            chunks.append(throttled)
        else:
            chunks.append(part)
        place -= length
    return chunks


def _encoded_again(frame: bytes, api_key: int, version: int, wait_ms: int) -> bytes:
    api = BY_KEY[api_key]
    start = header_bytes(api_key, version)
    value = api.decode_response(version, frame, start)
    body = api.encode_response(version, value | {NAME: wait_ms})
    header = frame[_INT32.size : start]
    return _INT32.pack(len(header) + len(body)) + header + body
