"""The lines of a journal's file; docs/formats/journals.md describes them.

A line is the CRC-32C of its JSON in eight hexadecimal digits, a space, the JSON, and a line feed.
Damage by a crash or a disk therefore affects only the text up to the next line feed. The lines
after it can be read.
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
    """Raised if a line is damaged or has invalid fields."""


@slotted(frozen=True)
class Form:
    """The format of one journal's file."""

    file: str
    """The name of the journal's file in the data directory. The file with the older half of the
    journal has the same name with a suffix."""
    header: str
    """The name of the field for the format's version. This field is in the first line of a file."""
    version: int
    name: str
    """The field of a line in which the journal stores the name of the entry's page, such as a group
    id."""
    kinds: Mapping[str, Callable[[Fields], Entry]]
    """For each `kind` of line, a function that creates the entry from the line's fields. The
    function raises an error for invalid fields."""
    says_gone: Callable[[Fields], bool] = lambda _: False
    """Returns True if a line of the journal says that the group, or other object to which the
    line's page belongs, was deleted."""

    def line_of(self, name: str, entry: Entry) -> bytes:
        return line_of({self.name: name, **entry.fields()})

    def entry_of(self, line: bytes) -> tuple[str, Entry]:
        """Returns the page's name and the entry in a line without its line feed. Raises
        NotALine."""
        fields = fields_of(line)
        try:
            read = self.kinds.get(fields["kind"])
            if read is None:
                raise NotALine(f"unknown kind {fields['kind']}")
            return text_of(fields[self.name]), read(fields)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise NotALine(f"not an entry: {error!r}") from None

    def name_of(self, line: bytes) -> tuple[str, bool]:
        """Returns the name of the page to which a line belongs. Also returns True if the line
        reports that the object with this name was deleted, otherwise False. Raises NotALine."""
        fields = fields_of(line)
        return str(fields.get(self.name)), self.says_gone(fields)

    @property
    def first_line(self) -> bytes:
        """Returns the first line of a file, which contains the format's version."""
        return line_of({self.header: self.version})

    def version_of(self, line: bytes) -> int:
        """Returns the version in the first line of a file. Raises NotALine."""
        version = fields_of(line).get(self.header)
        if not isinstance(version, int):
            raise NotALine("the version is missing")
        return version


def line_of(fields: Fields) -> bytes:
    """Encodes a JSON object as a line with its CRC and line feed."""
    body = json.dumps(fields, separators=(",", ":")).encode()
    return b"%08x %b\n" % (crc32c(body), body)


def fields_of(line: bytes) -> Fields:
    """Decodes the JSON object in a line without its line feed. Raises NotALine."""
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
    """Returns ``value`` if it is a string, else raises TypeError."""
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not text")
    return value


def number_of(value: Any) -> int:
    """Returns ``value`` if it is a whole number, else raises TypeError."""
    if not isinstance(value, int):
        raise TypeError(f"{value!r} is not a number")
    return value


def listed_of(value: Any) -> list[Any]:
    """Returns ``value`` if it is a list, else raises TypeError."""
    if not isinstance(value, list):
        raise TypeError(f"{value!r} is not a list")
    return value
