"""The lines in which journals are written down: docs/formats/journals.md.

A line is the CRC-32C of its JSON in eight hexadecimal digits, a space, the JSON, and a line feed.
Thus damage by a crash or a disk ends with the next line feed, and the lines after it are read.
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
    """A line is damaged, or has invalid fields."""


@slotted(frozen=True)
class Form:
    """How a journal is saved."""

    file: str
    """The name of its file in the data directory; the other half's name has a suffix."""
    header: str
    """The key of the version in the first line."""
    version: int
    name: str
    """The field of a line that has the name of the entry's page."""
    kinds: Mapping[str, Callable[[Fields], Entry]]
    """By a line's `kind`, the function that makes an entry of it; it raises the errors of wrong
    fields."""
    says_gone: Callable[[Fields], bool] = lambda _: False
    """Whether a line says that its name is deleted."""

    def line_of(self, name: str, entry: Entry) -> bytes:
        """The line of an entry on the page ``name``."""
        return line_of({self.name: name, **entry.fields()})

    def entry_of(self, line: bytes) -> tuple[str, Entry]:
        """The name and the entry in a line, without its line feed. Raises NotALine."""
        fields = fields_of(line)
        try:
            read = self.kinds.get(fields["kind"])
            if read is None:
                raise NotALine(f"unknown kind {fields['kind']}")
            return text_of(fields[self.name]), read(fields)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise NotALine(f"not an entry: {error!r}") from None

    def name_of(self, line: bytes) -> tuple[str, bool]:
        """The name of a line, and whether the line says that it is deleted. Raises NotALine."""
        fields = fields_of(line)
        return str(fields.get(self.name)), self.says_gone(fields)

    @property
    def first_line(self) -> bytes:
        """The first line of a file, with the journal's header and version."""
        return line_of({self.header: self.version})

    def version_of(self, line: bytes) -> int:
        """The version in the first line of a file. Raises NotALine."""
        version = fields_of(line).get(self.header)
        if not isinstance(version, int):
            raise NotALine("the version is missing")
        return version


def line_of(fields: Fields) -> bytes:
    """A JSON object as a line."""
    body = json.dumps(fields, separators=(",", ":")).encode()
    return b"%08x %b\n" % (crc32c(body), body)


def fields_of(line: bytes) -> Fields:
    """The JSON object in a line, without its line feed. Raises NotALine."""
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
