"""The parts of a message table: types, fields, version ranges, and an API with its request and
response.

The tables in ``protocol/messages`` consist of these parts. A field lists the versions in which it
is on the wire. The encoding of a type (int16 or varint lengths) depends on whether the version is
*flexible* (KIP-482). ``protocol.codec`` turns a table and a version into a codec.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from protocol.buffer import Buffer

if TYPE_CHECKING:
    from protocol.codec import Message
    from protocol.elements import ElementCounter

ZERO_UUID: Final = bytes(16)
"""Kafka's value for a missing topic id. In decoded values a UUID is 16 bytes."""

UNSET: Final[Any] = object()


class Primitive:
    """A type without parts.

    ``format`` is its ``struct`` letter, "" for a type of variable length. ``default`` is the value
    that a field of this type has in versions without the field (Kafka's rule).
    """

    __slots__ = ("default", "format", "name", "size")

    def __init__(self, name: str, format_: str, size: int, default: Any) -> None:
        self.name = name
        self.format = format_
        self.size = size
        self.default = default

    def __repr__(self) -> str:
        return self.name


BOOLEAN: Final = Primitive("BOOLEAN", "?", 1, False)
INT8: Final = Primitive("INT8", "b", 1, 0)
INT16: Final = Primitive("INT16", "h", 2, 0)
UINT16: Final = Primitive("UINT16", "H", 2, 0)
INT32: Final = Primitive("INT32", "i", 4, 0)
INT64: Final = Primitive("INT64", "q", 8, 0)
FLOAT64: Final = Primitive("FLOAT64", "d", 8, 0.0)
UUID: Final = Primitive("UUID", "16s", 16, ZERO_UUID)
STRING: Final = Primitive("STRING", "", 0, "")
BYTES: Final = Primitive("BYTES", "", 0, b"")
RECORDS: Final = Primitive("RECORDS", "", 0, None)


class Struct:
    """A sequence of fields. In flexible versions a section of tagged fields follows."""

    __slots__ = ("fields",)

    def __init__(self, *fields: Field) -> None:
        self.fields = fields


class Array:
    """An array: a count, followed by as many elements. It is written as ``Array(INT32)``, or as
    ``Array(Field(...), ...)`` if the elements are structs."""

    __slots__ = ("element",)

    def __init__(self, *parts: Primitive | Field) -> None:
        self.element: Primitive | Struct
        first = parts[0]
        if isinstance(first, Primitive):
            self.element = first
        else:
            self.element = Struct(*[part for part in parts if isinstance(part, Field)])


Type: TypeAlias = Primitive | Struct | Array


class Field(NamedTuple):
    """One field of a message, for all versions of its API."""

    name: str
    type: Type
    versions: str = "0+"
    """The versions that contain the field: "3+", "0-7", "2"."""
    nullable: str = ""
    """The versions in which the field may be null, in the notation of ``versions``; "" if it is
    never null."""
    tag: int | None = None
    default: Any = UNSET
    """The value of the field if a version does not contain it. UNSET means the default value of the
    field's type."""


class Api:
    """An API: its key, its versions, its request and its response. Codecs are built on first use.

    ``versions`` is the range in the tables; the broker may support fewer versions. Values are dicts
    whose keys are the field names of the tables, as ARCHITECTURE.md describes.
    """

    __slots__ = (
        "_counters",
        "_messages",
        "first_flexible",
        "key",
        "name",
        "request",
        "response",
        "versions",
    )

    def __init__(
        self,
        *,
        key: int,
        name: str,
        versions: str,
        flexible: str,
        request: Sequence[Field],
        response: Sequence[Field],
    ) -> None:
        self.key = key
        self.name = name
        self.versions = version_range(versions)
        self.first_flexible: int | None = version_range(flexible).start if flexible else None
        self.request = request
        self.response = response
        self._messages: dict[tuple[bool, int], Message] = {}
        self._counters: dict[int, ElementCounter] = {}

    def __repr__(self) -> str:
        return f"Api({self.key}, {self.name})"

    def is_flexible(self, version: int) -> bool:
        """Returns True if the version uses compact types and tagged fields."""
        return self.first_flexible is not None and version >= self.first_flexible

    def message(self, version: int, *, is_request: bool) -> Message:
        """Returns the codec of the request or the response in one version. Raises ProtocolError for
        an unknown version."""
        message = self._messages.get((is_request, version))
        if message is None:
            message = self._build(version, is_request)
        return message

    def _build(self, version: int, is_request: bool) -> Message:
        from protocol.codec import Message
        from protocol.errors import ProtocolError

        if version not in self.versions:
            raise ProtocolError(
                f"{self.name} has no version {version}: use {self.versions.start} to"
                f" {self.versions.stop - 1}"
            )
        kind, fields = ("request", self.request) if is_request else ("response", self.response)
        message = Message(f"{self.name} {kind}", fields, version, self.is_flexible(version))
        self._messages[is_request, version] = message
        return message

    def count_elements(self, version: int, buffer: Buffer, position: int, at_most: int) -> int:
        """Returns the number of elements in the request body at ``position``, without decoding the
        body. Raises protocol.elements.TooManyElements above ``at_most``."""
        counter = self._counters.get(version)
        if counter is None:
            from protocol.elements import ElementCounter

            counter = self._counters[version] = ElementCounter(
                f"{self.name} request v{version}", self.request, version, self.is_flexible(version)
            )
        return counter.count(buffer, position, at_most)

    def decode_request(self, version: int, buffer: Buffer, position: int = 0) -> dict[str, Any]:
        """Decodes the request body at ``position``. Bytes after the end of the body are ignored.

        Kafka ignores such bytes too, and librdkafka 2.16 relies on this: it adds three bytes to a
        Metadata v13 request for all topics.
        """
        return self.message(version, is_request=True).decode(buffer, position, exact=False)

    def decode_response(self, version: int, buffer: Buffer, position: int = 0) -> dict[str, Any]:
        """Decodes the response body from ``position`` to the end of the buffer."""
        return self.message(version, is_request=False).decode(buffer, position)

    def encode_request(self, version: int, value: dict[str, Any]) -> bytes:
        return self.message(version, is_request=True).encode(value)

    def encode_response(self, version: int, value: dict[str, Any]) -> bytes:
        return self.message(version, is_request=False).encode(value)


class LogRecord:
    """The key or the value of a record in one of Kafka's internal topics, in all its versions.

    ``record_type`` is the number in the first two bytes of a key. A value begins with its version
    instead.
    """

    __slots__ = ("_messages", "fields", "first_flexible", "name", "record_type", "versions")

    def __init__(
        self, *, record_type: int, name: str, versions: str, flexible: str, fields: Sequence[Field]
    ) -> None:
        self.record_type = record_type
        self.name = name
        self.versions = version_range(versions)
        self.first_flexible: int | None = version_range(flexible).start if flexible else None
        self.fields = fields
        self._messages: dict[int, Message] = {}

    def is_flexible(self, version: int) -> bool:
        """Returns True if the version uses compact types and tagged fields."""
        return self.first_flexible is not None and version >= self.first_flexible

    def message(self, version: int) -> Message:
        """Returns the codec of one version. Raises ProtocolError for an unknown version."""
        message = self._messages.get(version)
        if message is None:
            from protocol.codec import Message
            from protocol.errors import ProtocolError

            if version not in self.versions:
                raise ProtocolError(f"{self.name} has no version {version}")
            message = Message(self.name, self.fields, version, self.is_flexible(version))
            self._messages[version] = message
        return message


LAST: Final = 1 << 15
"""The end of a version range without an upper bound. It is above every possible version, which is
an int16."""


def version_range(text: str) -> range:
    """Returns the versions in "3+", "3-5" or "3"; an empty range for ""."""
    if not text:
        return range(0)
    if text.endswith("+"):
        return range(int(text[:-1]), LAST)
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


def default_of(field: Field) -> Any:
    """Returns a new default value of a field: its own default, or that of its type (0, "", [], or a
    struct of defaults)."""
    if field.default is not UNSET:
        return field.default
    if isinstance(field.type, Primitive):
        return field.type.default
    if isinstance(field.type, Array):
        return []
    return {part.name: default_of(part) for part in field.type.fields}


def layout(fields: Sequence[Field], version: int, flexible: bool) -> list[list[Any]]:
    """Returns the table of a message for one version, in the notation of
    ``tests/data/schema/api.json``."""
    plain: list[list[Any]] = []
    tagged: dict[str, list[Any]] = {}
    for field in fields:
        if version in version_range(field.versions):
            nullable = version in version_range(field.nullable)
            entry = [field.name, _type_layout(field.type, version, flexible, nullable)]
            if field.tag is None:
                plain.append(entry)
            else:
                tagged[str(field.tag)] = entry
    if flexible:
        plain.append(["_tagged_fields", {"tags": tagged}])
    return plain


def _type_layout(type_: Type, version: int, flexible: bool, nullable: bool) -> Any:
    if isinstance(type_, Struct):
        return layout(type_.fields, version, flexible)
    if isinstance(type_, Array):
        element = _type_layout(type_.element, version, flexible, False)
        return {"compactArray" if flexible else "array": element, "nullable": nullable}
    if type_.format:
        return type_.name
    return f"{'COMPACT_' if flexible else ''}{'NULLABLE_' if nullable else ''}{type_.name}"
