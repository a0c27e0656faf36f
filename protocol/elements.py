"""Counts the elements of a message from its bytes, before the message is decoded.

One byte on the wire may be an array element that needs a hundred bytes in memory, so elements are
counted first. The counter follows the table of the message like the reference codec. It allocates
no memory, skips elements of a fixed size in one step, and stops above its limit. The elements of
arrays at any depth, and the tagged fields, are counted.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from protocol import wire
from protocol.buffer import Buffer
from protocol.errors import ProtocolError
from protocol.schema import Array, Field, Struct, Type, version_range
from protocol.wire import read_varint

_DECODE_ERRORS: Final = (struct.error, IndexError)
_unpack_int16: Final = struct.Struct(">h").unpack_from
_unpack_int32: Final = struct.Struct(">i").unpack_from


class TooManyElements(ProtocolError):
    """A message has more elements than allowed."""


class _Tally:
    """Counts down the number of elements that a message may still have."""

    __slots__ = ("left",)

    def __init__(self, left: int) -> None:
        self.left = left

    def take(self, count: int) -> None:
        self.left -= count
        if self.left < 0:
            raise TooManyElements("the message has too many elements")


Skip: TypeAlias = Callable[[Buffer, int, _Tally], int]
"""A function that counts the elements in the value at a position, and returns the position after
the value."""


class ElementCounter:
    """Counts the elements of one message in one version."""

    __slots__ = ("_skip", "title")

    def __init__(self, title: str, fields: Sequence[Field], version: int, flexible: bool) -> None:
        self.title = title
        skip, size, _ = _struct(fields, version, flexible)
        self._skip = skip or _fixed(size)

    def count(self, buffer: Buffer, position: int, at_most: int) -> int:
        """Returns the number of elements in the message at ``position``.

        Raises TooManyElements as soon as there are more than ``at_most``. Raises ProtocolError if
        the bytes end within the message.
        """
        tally = _Tally(at_most)
        try:
            end = self._skip(buffer, position, tally)
        except TooManyElements:
            raise TooManyElements(f"{self.title} has more than {at_most} elements") from None
        except ProtocolError as error:
            raise ProtocolError(f"{self.title}: {error}") from None
        except _DECODE_ERRORS:
            raise ProtocolError(f"{self.title}: truncated") from None
        if end > len(buffer):
            raise ProtocolError(f"{self.title}: truncated")
        return at_most - tally.left


_Part = tuple[Skip | None, int, int]
"""How to skip a value: the function that skips it, its fixed size, and its minimum size. The fixed
size is 0 for a value of variable size. The function is None for a value of fixed size that contains
no elements."""


def _fixed(size: int) -> Skip:
    def skip(buffer: Buffer, position: int, tally: _Tally) -> int:  # noqa: ARG001
        return position + size

    return skip


def _struct(fields: Sequence[Field], version: int, flexible: bool) -> _Part:
    present = [field for field in fields if version in version_range(field.versions)]
    parts: list[Skip] = []
    run = least = 0
    for field in present:
        if field.tag is not None:
            continue
        nullable = version in version_range(field.nullable)
        skip, size, min_bytes = _part(field.type, version, flexible, nullable)
        least += min_bytes
        if skip is None:
            run += size
            continue
        if run:
            parts.append(_fixed(run))
            run = 0
        parts.append(skip)
    if not parts and not flexible:
        return None, run, least
    if run:
        parts.append(_fixed(run))
    if flexible:
        parts.append(_tags([field for field in present if field.tag is not None], version))
        least += 1

    def skip_all(buffer: Buffer, position: int, tally: _Tally) -> int:
        for skip_part in parts:
            position = skip_part(buffer, position, tally)
        return position

    return skip_all, 0, least


def _part(type_: Type, version: int, flexible: bool, nullable: bool) -> _Part:
    if isinstance(type_, Array):
        return _array(type_, version, flexible), 0, 1 if flexible else 4
    if isinstance(type_, Struct):
        skip, size, least = _struct(type_.fields, version, flexible)
        if nullable:
            return _nullable(skip or _fixed(size)), 0, 1
        return skip, size, least
    if type_.format:
        return None, type_.size, type_.size
    if flexible:
        return _skip_compact, 0, 1
    return (_skip_text, 0, 2) if type_.name == "STRING" else (_skip_data, 0, 4)


def _nullable(inner: Skip) -> Skip:
    def skip(buffer: Buffer, position: int, tally: _Tally) -> int:
        if buffer[position] == 0xFF:
            return position + 1
        return inner(buffer, position + 1, tally)

    return skip


def _array(array: Array, version: int, flexible: bool) -> Skip:
    skip_element, size, least = _part(array.element, version, flexible, False)
    read_count = wire.read_compact_count if flexible else wire.read_count
    element_bytes = max(least, 1)

    def skip(buffer: Buffer, position: int, tally: _Tally) -> int:
        count, position = read_count(buffer, position, element_bytes)
        if count > 0:
            tally.take(count)
            if skip_element is None:
                return position + count * size
            for _ in range(count):
                position = skip_element(buffer, position, tally)
        return position

    return skip


def _tags(fields: Sequence[Field], version: int) -> Skip:
    known: dict[int | None, Skip] = {}
    for field in fields:
        nullable = version in version_range(field.nullable)
        inner, _, _ = _part(field.type, version, True, nullable)
        if inner is not None:
            known[field.tag] = inner

    def skip(buffer: Buffer, position: int, tally: _Tally) -> int:
        if not buffer[position]:
            return position + 1
        count, position = read_varint(buffer, position)
        tally.take(count)
        for _ in range(count):
            tag, position = read_varint(buffer, position)
            size, position = read_varint(buffer, position)
            inside = known.get(tag)
            if inside is not None:
                inside(buffer, position, tally)
            position += size
        return position

    return skip


def _skip_text(buffer: Buffer, position: int, tally: _Tally) -> int:  # noqa: ARG001
    (length,) = _unpack_int16(buffer, position)
    return position + 2 + length if length > 0 else position + 2


def _skip_data(buffer: Buffer, position: int, tally: _Tally) -> int:  # noqa: ARG001
    (length,) = _unpack_int32(buffer, position)
    return position + 4 + length if length > 0 else position + 4


def _skip_compact(buffer: Buffer, position: int, tally: _Tally) -> int:  # noqa: ARG001
    length = buffer[position]
    if length < 0x80:
        return position + length if length else position + 1
    length, position = read_varint(buffer, position)
    return position + length - 1 if length else position
