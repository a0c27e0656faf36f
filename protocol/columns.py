"""Helpers of the generated codecs for whole arrays and for parts of frames.

An array of fixed-size elements is unpacked or packed with one ``struct.Struct`` made for its count.
These are cached within limits that no client can exceed: at most ``KEPT_ELEMENTS`` elements in all
per shape (about 100 bytes each).
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
"""The struct of a longer array is not cached."""

_INT16_PREFIX: Final = struct.Struct(">h").pack
_INT32_PREFIX: Final = struct.Struct(">i").pack
_VARINTS: Final = tuple(varint(value) for value in range(256))


T = TypeVar("T")


class Unusual(Exception):
    """Raised in a generated decoder for a request that the reference codec must decode."""


class _PerCount(dict[int, Callable[..., T]]):
    """Struct methods by element count, created on first use."""

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
    """``unpackers[count](buffer, position)`` is the flat tuple of ``count`` elements.

    The caller has checked that ``count`` elements fit the bytes present.
    """

    def __missing__(self, count: int) -> Callable[..., tuple[Any, ...]]:
        return self._keep(count, self._struct(count).unpack_from)


class Packers(_PerCount[bytes]):
    """``packers[count](*values)`` is the bytes of ``count`` elements."""

    def __missing__(self, count: int) -> Callable[..., bytes]:
        return self._keep(count, self._struct(count).pack)


def slow(
    api: Api,
    version: int,
    buffer: Buffer,
    position: int,
    shape: Callable[[int, dict[str, Any]], T],
) -> T:
    """Decode by the reference codec what generated decoders can't: tagged fields, and invalid
    bytes.

    Raises the reference's ProtocolError, or returns its value in the generated shape.
    """
    return shape(version, api.decode_request(version, buffer, position))


def unsayable(api: Api, version: int, error: Exception) -> ProtocolError:
    """The error for a response with values that its fields can't hold."""
    return ProtocolError(f"{api.name} response v{version}: {type(error).__name__}: {error}")


def text(value: Any) -> bytes:
    """STRING."""
    encoded: bytes = value.encode()
    # struct raises an error above int16.
    return _INT16_PREFIX(len(encoded)) + encoded


def nullable_text(value: str | None) -> bytes:
    """NULLABLE_STRING."""
    return b"\xff\xff" if value is None else text(value)


def compact_text(value: Any) -> bytes:
    """COMPACT_STRING."""
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
    """COMPACT_NULLABLE_STRING."""
    return b"\0" if value is None else compact_text(value)


def data(value: bytes) -> bytes:
    """BYTES."""
    prefix: bytes = _INT32_PREFIX(len(value))
    return prefix + value


def compact_data(value: bytes) -> bytes:
    """COMPACT_BYTES."""
    return count_prefix(len(value)) + value


def count_prefix(count: int) -> bytes:
    """The count of a compact array or of compact bytes."""
    return _VARINTS[count + 1] if count < 255 else varint(count + 1)


def uuid(value: bytes) -> bytes:
    """UUID; raises unless it has 16 bytes."""
    if len(value) != len(ZERO_UUID):
        raise ProtocolError(f"expected a UUID of 16 bytes, not {value!r:.80}")
    return value


def code_columns(
    zeros: Packers, packers: Packers, partitions: Sequence[int], codes: int | Sequence[int]
) -> bytes:
    """Encode partitions each with an error code: one for all (0 costs nothing), or a column.

    ``zeros`` packs a partition and a code of 0, ``packers`` a partition and a code.
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
    """Encode the partitions of an OffsetFetch response without metadata.

    ``columns`` are the fields before the metadata, ``codes`` is one error code or a column. In
    flexible versions the packers have a field for the empty metadata, the varint 1.
    """
    count = len(columns[0])
    width = len(columns) + 1 + flexible
    flat: list[Any] = [1] * (width * count)
    for index, column in enumerate(columns):
        flat[index::width] = column
    flat[width - 1 :: width] = [codes] * count if isinstance(codes, int) else codes
    return packers[count](*flat)
