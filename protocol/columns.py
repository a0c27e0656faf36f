"""Helpers of the generated codecs, for whole arrays and for parts of frames.

An array of fixed-size elements is packed and unpacked with a ``struct.Struct`` for its number of
elements. These structs are cached. So that clients can't fill the memory with structs, the structs
for one kind of element have at most ``KEPT_ELEMENTS`` elements in total. A struct needs about 100
bytes for each of its elements.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from protocol.buffer import Buffer
from protocol.errors import ProtocolError
from protocol.schema import ZERO_UUID, Api
from protocol.wire import MAX_STRING_BYTES, varint

KEPT_ELEMENTS: Final = 4096
KEPT_COUNT: Final = 2048
"""The cache has packers and unpackers of arrays with at most this number of elements."""

_INT16_PREFIX: Final = struct.Struct(">h").pack
_INT32_PREFIX: Final = struct.Struct(">i").pack
_VARINTS: Final = tuple(varint(value) for value in range(256))


T = TypeVar("T")


class Unusual(Exception):
    """A generated decoder can't decode a request, and the reference codec must decode it
    instead."""


class _PerCount(dict[int, Callable[..., T]]):
    """Methods of ``struct.Struct`` objects by element count, created on first use."""

    def __init__(self, element: str) -> None:
        super().__init__()
        self._element = element
        self._elements = 0

    def _struct(self, count: int) -> struct.Struct:
        if len(self._element) == 1:
            return struct.Struct(f">{count}{self._element}")
        return struct.Struct(">" + self._element * count)

    def _keep(self, count: int, method: Callable[..., T]) -> Callable[..., T]:
        if count <= KEPT_COUNT:
            self._elements += count + 1
            if self._elements > KEPT_ELEMENTS:
                self.clear()
                self._elements = count + 1
            self[count] = method
        return method


class Unpackers(_PerCount[tuple[Any, ...]]):
    """By a number of elements: the function that unpacks so many elements. The call
    ``unpackers[count](buffer, position)`` returns the values of all elements in one flat tuple. The
    caller must check that the buffer contains ``count`` elements."""

    def __missing__(self, count: int) -> Callable[..., tuple[Any, ...]]:
        return self._keep(count, self._struct(count).unpack_from)


class Packers(_PerCount[bytes]):
    """``packers[count](*values)`` returns the bytes of ``count`` elements."""

    def __missing__(self, count: int) -> Callable[..., bytes]:
        return self._keep(count, self._struct(count).pack)


def slow(
    api: Api,
    version: int,
    buffer: Buffer,
    position: int,
    shape: Callable[[int, dict[str, Any]], T],
) -> T:
    """Decodes a body that the generated decoder does not support, because it has tagged fields or
    unusual bytes. Uses the reference codec.

    Returns the value in the shape that the generated decoder would return. Raises ProtocolError for
    invalid bytes.
    """
    return shape(version, api.decode_request(version, buffer, position))


def unsayable(api: Api, version: int, error: Exception) -> ProtocolError:
    """Returns the error for a response with values outside of the range of their fields."""
    return ProtocolError(f"{api.name} response v{version}: {type(error).__name__}: {error}")


def text(value: Any) -> bytes:
    encoded: bytes = value.encode()
    # struct raises an error above int16.
    return _INT16_PREFIX(len(encoded)) + encoded


def nullable_text(value: str | None) -> bytes:
    return b"\xff\xff" if value is None else text(value)


def compact_text(value: Any) -> bytes:
    encoded: bytes = value.encode()
    size = len(encoded)
    if size < 255:
        return _VARINTS[size + 1] + encoded
    if size > MAX_STRING_BYTES:
        raise ProtocolError(
            f"the string of {size} bytes exceeds Kafka's limit of {MAX_STRING_BYTES}"
        )
    return varint(size + 1) + encoded


def compact_nullable_text(value: str | None) -> bytes:
    return b"\0" if value is None else compact_text(value)


def data(value: bytes) -> bytes:
    prefix: bytes = _INT32_PREFIX(len(value))
    return prefix + value


def compact_data(value: bytes) -> bytes:
    return count_prefix(len(value)) + value


def count_prefix(count: int) -> bytes:
    """Returns the count prefix of a compact array or of COMPACT_BYTES: ``count`` plus one as a
    varint."""
    return _VARINTS[count + 1] if count < 255 else varint(count + 1)


def uuid(value: bytes) -> bytes:
    """Returns the bytes of a UUID. Raises an error if it does not have 16 bytes."""
    if len(value) != len(ZERO_UUID):
        raise ProtocolError(f"expected a UUID of 16 bytes, not {value!r:.80}")
    return value


def code_columns(
    zeros: Packers, packers: Packers, partitions: Sequence[int], codes: int | Sequence[int]
) -> bytes:
    """Encodes each partition, followed by its error code. ``codes`` is one code for all partitions,
    or one code for each partition.

    ``zeros`` packs partitions with the code 0, which is the fastest case. ``packers`` packs
    partitions with any codes.
    """
    count = len(partitions)
    if codes == 0:
        return zeros[count](*partitions)
    flat: list[Any]
    if isinstance(codes, int):
        flat = [codes] * (2 * count)
    else:
        flat = [0] * (2 * count)
        flat[1::2] = codes
    flat[0::2] = partitions
    return packers[count](*flat)


def offset_columns(
    packers: Packers,
    columns: Sequence[Sequence[int]],
    codes: int | Sequence[int],
    flexible: bool,
) -> bytes:
    """Encodes the partitions of an OffsetFetch response, with empty metadata.

    ``columns`` are the fields before the metadata, each with one value per partition. ``codes`` is
    one error code for all partitions, or one code for each partition. In flexible versions the
    empty metadata is the varint 1, which ``packers`` packs for each partition like a column.
    """
    count = len(columns[0])
    width = len(columns) + 1 + flexible
    flat: list[Any] = [1] * (width * count)
    for index, column in enumerate(columns):
        flat[index::width] = column
    flat[width - 1 :: width] = [codes] * count if isinstance(codes, int) else codes
    return packers[count](*flat)
