"""The reference codec: reads and writes any API in any version, according to the API's table.

For each table and version it builds a tree of small readers and writers once, so that version
ranges are not evaluated for each message. Decoding is exact: every byte belongs to a field. It is
bounded: a claimed count or length is compared with the remaining bytes before memory is allocated.
It is as lenient as Kafka where a valid client can notice the difference: a varint may be longer
than necessary, and a boolean is true for any byte except 0. Other invalid bytes raise
ProtocolError.

``protocol/generated`` is faster, and covers the frequent APIs; tests compare the results.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from protocol import wire
from protocol.buffer import Buffer
from protocol.encoded_array import EncodedArray, element_at
from protocol.errors import ProtocolError
from protocol.schema import (
    STRING,
    UUID,
    Array,
    Field,
    Primitive,
    Struct,
    Type,
    default_of,
    version_range,
)
from protocol.wire import read_varint, write_varint

Reader: TypeAlias = Callable[[Buffer, int], tuple[Any, int]]
Writer: TypeAlias = Callable[[bytearray, Any], None]
Codec: TypeAlias = tuple[Reader, Writer, int]
"""The reader of a type, the writer of the type, and the minimum size of a value in bytes."""

TAGGED_FIELDS: Final = "_tagged_fields"

_DECODE_ERRORS: Final = (struct.error, IndexError, UnicodeDecodeError)
_ENCODE_ERRORS: Final = (struct.error, TypeError, UnicodeEncodeError)


class Message:
    """The codec of one message in one version."""

    __slots__ = ("_elements", "_fields", "_struct", "_version", "flexible", "title")

    def __init__(self, title: str, fields: Sequence[Field], version: int, flexible: bool) -> None:
        self.title = f"{title} v{version}"
        self.flexible = flexible
        self._fields = fields
        self._version = version
        self._struct = StructCodec(fields, version, flexible)
        self._elements: dict[tuple[str, ...], Writer] = {}

    def decode(self, buffer: Buffer, position: int = 0, *, exact: bool = True) -> dict[str, Any]:
        """Returns the value that begins at ``position``. Raises ProtocolError for invalid bytes;
        with ``exact`` also for bytes after the end of the value."""
        try:
            value, end = self._struct.read(buffer, position)
        except ProtocolError as error:
            raise ProtocolError(f"{self.title}: {error}") from None
        except _DECODE_ERRORS as error:
            raise ProtocolError(f"{self.title}: {_reason(error)}") from None
        if exact and end != len(buffer):
            raise ProtocolError(f"{self.title}: {len(buffer) - end} excess bytes")
        return value

    def encode(self, value: dict[str, Any]) -> bytes:
        """Returns the bytes of a value. Raises ProtocolError, which names an invalid field."""
        out = bytearray()
        try:
            self._struct.write(out, value)
        except ProtocolError as error:
            raise ProtocolError(f"{self.title}: {error}") from None
        return bytes(out)

    def array(self, *path: str) -> EncodedArray:
        """Returns an encoder for the array at a path of field names. The encoder encodes the array
        element by element. So only one element of a long response is in memory as a value."""
        write = self._elements.get(path)
        if write is None:
            element = element_at(self._fields, path)
            write = _codec_of(element, self._version, self.flexible, False)[1]
            self._elements[path] = write
        return EncodedArray(write)


def _reason(error: Exception) -> str:
    if isinstance(error, UnicodeDecodeError):
        return f"a string is not UTF-8: {error.reason}"
    return "truncated"


class StructCodec:
    """Reads and writes one struct. Neighbouring fields of fixed size are packed together with one
    ``struct.Struct``.

    ``min_bytes`` is the minimum size of an encoded struct. The decoder of an array of structs uses
    it to reject a count of structs that can't fit in the remaining bytes.
    """

    __slots__ = ("_absent", "_fresh", "_known", "_reads", "_tag_section", "_writes", "min_bytes")

    def __init__(self, fields: Sequence[Field], version: int, flexible: bool) -> None:
        plain: list[Field] = []
        tagged: list[Field] = []
        for field in fields:
            if version in version_range(field.versions):
                (plain if field.tag is None else tagged).append(field)
        present = {field.name for field in plain}
        self._known = frozenset([*(field.name for field in fields), TAGGED_FIELDS])
        self._absent: dict[str, Any] = {}
        self._fresh: list[Field] = []
        for field in fields:
            if field.name not in present:
                default = default_of(field)
                if isinstance(default, list | dict):
                    self._fresh.append(field)
                self._absent[field.name] = default
        self._reads: list[tuple[Any, Callable[..., Any], int]] = []
        self._writes: list[tuple[Any, Callable[..., Any], bool]] = []
        self.min_bytes = 0
        run: list[Field] = []
        for field in plain:
            if isinstance(field.type, Primitive) and field.type.format:
                run.append(field)
                continue
            if run:
                self._add_run(run)
                run = []
            self._add_field(field, version, flexible)
        if run:
            self._add_run(run)
        self._tag_section = TagSection(tagged, version) if flexible else None
        self.min_bytes += flexible

    def _add_run(self, run: list[Field]) -> None:
        packer = struct.Struct(">" + "".join(_format(field) for field in run))
        names = tuple(field.name for field in run)
        self._reads.append((names, packer.unpack_from, packer.size))
        pairs = tuple((field.name, default_of(field)) for field in run)
        uuids = tuple(field.name for field in run if field.type is UUID)
        self._writes.append(((pairs, uuids), packer.pack, True))
        self.min_bytes += packer.size

    def _add_field(self, field: Field, version: int, flexible: bool) -> None:
        nullable = version in version_range(field.nullable)
        read, write, min_bytes = _codec_of(field.type, version, flexible, nullable)
        self._reads.append((field.name, read, 0))
        self._writes.append(((field.name, default_of(field)), write, False))
        self.min_bytes += min_bytes

    def read(self, buffer: Buffer, position: int) -> tuple[dict[str, Any], int]:
        """Returns the value at ``position``, and the position after it."""
        value = self._absent.copy()
        for field in self._fresh:
            value[field.name] = default_of(field)
        for name, read, size in self._reads:
            if size:
                value.update(zip(name, read(buffer, position), strict=True))
                position += size
            else:
                value[name], position = read(buffer, position)
        if self._tag_section is not None:
            position = self._tag_section.read(buffer, position, value)
        return value, position

    def write(self, out: bytearray, value: dict[str, Any]) -> None:
        """Appends the bytes of a value. Missing fields are written with their defaults."""
        if not isinstance(value, dict):
            raise ProtocolError(f"expected a dict, not {value!r:.80}")
        if not self._known.issuperset(value):
            unknown = ", ".join(sorted(map(str, value.keys() - self._known)))
            raise ProtocolError(f"unknown field: {unknown}")
        get = value.get
        for what, write, is_run in self._writes:
            try:
                if is_run:
                    pairs, uuids = what
                    for name in uuids:
                        _check_uuid(get(name))
                    out += write(*[get(name, default) for name, default in pairs])
                else:
                    write(out, get(*what))
            except ProtocolError as error:
                raise ProtocolError(f"{_names(what, is_run)}: {error}") from None
            except _ENCODE_ERRORS as error:
                raise ProtocolError(f"{_names(what, is_run)}: {error}") from None
        if self._tag_section is not None:
            self._tag_section.write(out, value)
        elif value.get(TAGGED_FIELDS):
            raise ProtocolError("this version of the message can't have tagged fields")


def _format(field: Field) -> str:
    assert isinstance(field.type, Primitive)
    return field.type.format


def _names(what: Any, is_run: bool) -> str:
    return ", ".join(name for name, _ in what[0]) if is_run else what[0]


def _check_uuid(value: Any) -> None:
    # struct's "16s" would silently pad or truncate other lengths.
    if value is not None and not (isinstance(value, bytes) and len(value) == 16):
        raise ProtocolError(f"expected a UUID of 16 bytes, not {value!r:.80}")


class TagSection:
    """Reads and writes the tagged fields at the end of a flexible struct (KIP-482).

    Known tags become fields, and are written only if they differ from the default. Unknown tags are
    kept as bytes under ``_tagged_fields`` and written back. Tags must ascend without repeats.
    """

    __slots__ = ("_known", "_names")

    def __init__(self, fields: Sequence[Field], version: int) -> None:
        self._known: dict[int, tuple[str, Reader]] = {}
        self._names: list[tuple[int, str, Writer, bytes]] = []
        for field in sorted(fields, key=lambda field: field.tag or 0):
            assert field.tag is not None
            nullable = version in version_range(field.nullable)
            read, write, _ = _codec_of(field.type, version, True, nullable, null=0)
            absent = bytearray()
            # Kafka 4.3.1 writes a null struct, although it omits other defaults
            if not (nullable and isinstance(field.type, Struct)):
                write(absent, default_of(field))
            self._known[field.tag] = (field.name, read)
            self._names.append((field.tag, field.name, write, bytes(absent)))

    def read(self, buffer: Buffer, position: int, value: dict[str, Any]) -> int:
        """Reads the tagged fields at ``position`` into ``value``. Returns the end position."""
        count = buffer[position]
        if not count:
            return position + 1
        count, position = read_varint(buffer, position)
        if count * 2 > (left := len(buffer) - position):
            raise ProtocolError(f"{count} tagged fields are stated, but only {left} bytes are left")
        unknown = {}
        last = -1
        for _ in range(count):
            tag, position = read_varint(buffer, position)
            size, position = read_varint(buffer, position)
            if tag <= last:
                raise ProtocolError(f"tag {tag} follows tag {last}: tags must ascend")
            last = tag
            end = position + size
            if end > len(buffer):
                raise ProtocolError(f"tag {tag} has {size} bytes, but fewer are left")
            known = self._known.get(tag)
            if known is None:
                unknown[tag] = bytes(buffer[position:end])
            else:
                name, read = known
                value[name], used = read(buffer[position:end], 0)
                if used != size:
                    raise ProtocolError(f"{name}: {size - used} excess bytes")
            position = end
        if unknown:
            value[TAGGED_FIELDS] = unknown
        return position

    def write(self, out: bytearray, value: dict[str, Any]) -> None:
        """Appends the bytes of the tagged fields in ``value``."""
        sections: dict[int, bytes] = {}
        for tag, name, write, absent in self._names:
            if name in value:
                data = bytearray()
                try:
                    write(data, value[name])
                except (ProtocolError, *_ENCODE_ERRORS) as error:
                    raise ProtocolError(f"{name}: {error}") from None
                if data != absent:
                    sections[tag] = bytes(data)
        unknown = value.get(TAGGED_FIELDS)
        if unknown:
            for tag, data in unknown.items():
                if tag in self._known or not isinstance(data, bytes):
                    raise ProtocolError(
                        f"{TAGGED_FIELDS}: tag {tag} is a known field, or its data is not bytes"
                    )
                sections[tag] = data
        write_varint(out, len(sections))
        for tag in sorted(sections):
            write_varint(out, tag)
            write_varint(out, len(sections[tag]))
            out += sections[tag]


# By (text?, compact?, nullable?); RECORDS are encoded like BYTES.
_TEXT_AND_DATA: Final[dict[tuple[bool, bool, bool], Codec]] = {
    (True, False, False): (wire.read_string, wire.write_string, 2),
    (True, False, True): (wire.read_nullable_string, wire.write_nullable_string, 2),
    (True, True, False): (wire.read_compact_string, wire.write_compact_string, 1),
    (True, True, True): (wire.read_compact_nullable_string, wire.write_compact_nullable_string, 1),
    (False, False, False): (wire.read_bytes, wire.write_bytes, 4),
    (False, False, True): (wire.read_nullable_bytes, wire.write_nullable_bytes, 4),
    (False, True, False): (wire.read_compact_bytes, wire.write_compact_bytes, 1),
    (False, True, True): (wire.read_compact_nullable_bytes, wire.write_compact_nullable_bytes, 1),
}


def _codec_of(type_: Type, version: int, flexible: bool, nullable: bool, null: int = 0xFF) -> Codec:
    if isinstance(type_, Array):
        return _array_codec(type_, version, flexible, nullable)
    if isinstance(type_, Struct):
        inner = StructCodec(type_.fields, version, flexible)
        if nullable:
            return _nullable(inner.read, inner.write, null)
        return inner.read, inner.write, inner.min_bytes
    if not type_.format:
        return _TEXT_AND_DATA[type_ is STRING, flexible, nullable]
    return _fixed_codec(type_)


def _nullable(read: Reader, write: Writer, null: int) -> Codec:
    # A nullable struct begins with a byte: 1, or for null -1 (0 in a tagged field).
    def read_nullable(buffer: Buffer, position: int) -> tuple[Any, int]:
        mark = buffer[position]
        if mark == null:
            return None, position + 1
        if mark != 1:
            raise ProtocolError(f"expected 1 or {-1 if null else 0} before a struct, not {mark}")
        return read(buffer, position + 1)

    def write_nullable(out: bytearray, value: Any) -> None:
        if value is None:
            out.append(null)
        else:
            out.append(1)
            write(out, value)

    return read_nullable, write_nullable, 1


def _fixed_codec(type_: Primitive) -> Codec:
    packer = struct.Struct(">" + type_.format)
    unpack, pack, size = packer.unpack_from, packer.pack, packer.size

    def read(buffer: Buffer, position: int) -> tuple[Any, int]:
        return unpack(buffer, position)[0], position + size

    def write(out: bytearray, value: Any) -> None:
        if type_ is UUID:
            _check_uuid(value)
        out += pack(value)

    return read, write, size


def _array_codec(array: Array, version: int, flexible: bool, nullable: bool) -> Codec:
    element = array.element
    read, write, min_bytes = _codec_of(element, version, flexible, False)
    least = max(min_bytes, 1)
    read_count = wire.read_compact_count if flexible else wire.read_count
    write_count = wire.write_compact_count if flexible else wire.write_count
    letter = element.format if isinstance(element, Primitive) and element is not UUID else ""

    def read_array(buffer: Buffer, position: int) -> tuple[list[Any] | None, int]:
        count, position = read_count(buffer, position, least)
        if count < 0:
            if not nullable:
                raise ProtocolError("expected an array, not null")
            return None, position
        if letter:
            return (
                list(struct.unpack_from(f">{count}{letter}", buffer, position)),
                position + count * least,
            )
        values = []
        for _ in range(count):
            value, position = read(buffer, position)
            values.append(value)
        return values, position

    def write_array(out: bytearray, values: Any) -> None:
        if values is None and nullable:
            write_count(out, -1)
            return
        if not isinstance(values, list | tuple):
            if isinstance(values, EncodedArray):
                write_count(out, values.count)
                out += values.data
                return
            raise ProtocolError(f"expected a list, not {values!r:.80}")
        write_count(out, len(values))
        if letter:
            out += struct.pack(f">{len(values)}{letter}", *values)
        else:
            for value in values:
                write(out, value)

    return read_array, write_array, 1 if flexible else 4
