"""Encodes and decodes the keys and values of group records whose schemas are in
`protocol.log_records`, all in version 0.

A record of a member has the member id in its key, after the group id.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from offsets.record_values import Malformed, string
from protocol import log_records
from protocol.errors import ProtocolError


class Format(NamedTuple):
    """The format of one type of record."""

    key_type: int
    name: str
    """The name of the key schema and of the value schema, without "Key" and "Value"."""
    to_fields: Callable[[Any], dict[str, Any]]
    from_fields: Callable[[dict[str, Any]], Any]


class SchemaCodec:
    """Encodes and decodes the records of one type of groups."""

    def __init__(self, formats: Mapping[type, Format]) -> None:
        """``formats`` has the format of each class of records."""
        self._formats = formats
        self._by_type = {each.key_type: made for made, each in formats.items()}
        self._heads = {made: each.key_type.to_bytes(2, "big") for made, each in formats.items()}

    def encode_key(self, group_id: str, record: Any) -> bytes:
        """Returns the encoded key of a record, with its type. Raises UnwritableRun for a string
        above 32767 bytes."""
        head = self._heads[type(record)] + string(group_id)
        member_id: str | None = getattr(record, "member_id", None)
        return head if member_id is None else head + string(member_id)

    def encode_value(self, record: Any) -> bytes | None:
        """Returns the encoded value of a record, with its version 0; None for a tombstone."""
        if record.value is None:
            return None
        stored = self._formats[type(record)]
        fields = stored.to_fields(record.value)
        return b"\0\0" + log_records.encode(f"{stored.name}Value", 0, fields)

    def decode(self, key: bytes, value: bytes | None) -> tuple[str, Any] | None:
        """Decodes a stored key and value. Returns the group id and the record; None if the key has
        another type. Raises Malformed if the bytes are invalid for the key's type, or if the
        version of the value is unknown."""
        made = self._by_type.get(int.from_bytes(key[:2], "big", signed=True))
        if made is None:
            return None
        _, name, _, from_fields = self._formats[made]
        try:
            fields = log_records.decode(f"{name}Key", 0, key, 2)
            group_id: str = fields.pop("group_id")
            content = None
            if value is not None:
                if len(value) < 2:
                    raise Malformed(
                        f"{name}Value: a value of {len(value)} bytes is too short to contain a"
                        " version"
                    )
                version = int.from_bytes(value[:2], "big", signed=True)
                if version != 0:
                    raise Malformed(
                        f"version {version} of {name}Value is unknown; a newer Kafka may have"
                        " written it: open the directory with a newer Muster"
                    )
                content = from_fields(log_records.decode(f"{name}Value", 0, value, 2))
        except ProtocolError as error:
            raise Malformed(f"{name}: {error}") from None
        return group_id, made(*fields.values(), content)
