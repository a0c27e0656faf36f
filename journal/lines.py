"""The lines in which journals are written down: docs/formats/groups-journal.md.

A line is the CRC-32C of its JSON in eight hexadecimal digits, a space, the JSON, and a line feed.
So what a crash tore or a disk damaged ends with the next line feed, and the lines behind it are
read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from journal.entry import Entry, Fields
from protocol.records.crc import crc32c
from protocol.slotted import slotted

_CRC_DIGITS = 8


class NotALine(Exception):
    """A line is damaged, or says what it can't say."""


@slotted(frozen=True)
class Form:
    """How a journal is written down."""

    file: str
    """The name of its file in the data directory; the other half has an end more."""
    header: str
    """What the first line has the version under."""
    version: int
    name: str
    """The field of a line that says whose page its entry is on."""
    kinds: Mapping[str, Callable[[Fields], Entry]]
    """What makes an entry of a line, by the line's `kind`; it raises what comes of wrong fields."""
    says_gone: Callable[[Fields], bool] = lambda _: False
    """Whether a line says that what has the name is gone."""

    def line_of(self, name: str, entry: Entry) -> bytes:
        """An entry on the page of a name as a line."""
        return line_of({self.name: name, **entry.fields()})

    def entry_of(self, line: bytes) -> tuple[str, Entry]:
        """What a line, without its line feed, says. Raises NotALine."""
        fields = fields_of(line)
        try:
            read = self.kinds.get(fields["kind"])
            if read is None:
                raise NotALine(f"unknown kind {fields['kind']}")
            return text_of(fields[self.name]), read(fields)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise NotALine(f"not an entry: {error!r}") from None

    def name_of(self, line: bytes) -> tuple[str, bool]:
        """Whose a line is, and whether it says that it is gone. Raises NotALine."""
        fields = fields_of(line)
        return str(fields.get(self.name)), self.says_gone(fields)

    @property
    def first_line(self) -> bytes:
        """That of a file: what it is, and the version of its lines."""
        return line_of({self.header: self.version})

    def version_of(self, line: bytes) -> int:
        """The version that the first line of a file names. Raises NotALine."""
        version = fields_of(line).get(self.header)
        if not isinstance(version, int):
            raise NotALine("the version is missing")
        return version


def line_of(fields: Fields) -> bytes:
    """A JSON object as a line."""
    body = json.dumps(fields, separators=(",", ":")).encode()
    return b"%08x %b\n" % (crc32c(body), body)


def fields_of(line: bytes) -> Fields:
    """What a line, without its line feed, holds. Raises NotALine."""
    body = line[_CRC_DIGITS + 1 :]
    if line[_CRC_DIGITS : _CRC_DIGITS + 1] != b" " or line[:_CRC_DIGITS] != b"%08x" % crc32c(body):
        raise NotALine("the checksum does not match")
    try:
        fields = json.loads(body)
    except (ValueError, RecursionError):
        fields = None
    if not isinstance(fields, dict):
        raise NotALine("not a JSON object")
    return fields


def text_of(value: Any) -> str:
    """A field that must be text. Raises TypeError."""
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not text")
    return value


def number_of(value: Any) -> int:
    """A field that must be a whole number. Raises TypeError."""
    if not isinstance(value, int):
        raise TypeError(f"{value!r} is not a number")
    return value


def listed_of(value: Any) -> list[Any]:
    """A field that must be a list. Raises TypeError."""
    if not isinstance(value, list):
        raise TypeError(f"{value!r} is not a list")
    return value
