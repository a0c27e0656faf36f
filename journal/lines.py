"""The lines of a journal's file; docs/formats/journals.md describes them.

A line is the CRC-32C of its JSON in eight hexadecimal digits, a space, the JSON, and a line feed.
Damage by a crash or a disk therefore affects only the text up to the next line feed; later lines
can be read.
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
    """The format in which a journal is saved."""

    file: str
    """The name of the journal's file in the data directory; the older half of the journal has this
    name with a suffix."""
    header: str
    """The field of the file's first line that contains the format's version."""
    version: int
    name: str
    """The field of a line that contains the name of the entry's page."""
    kinds: Mapping[str, Callable[[Fields], Entry]]
    """For each `kind` of line, the function that creates an entry from the line's fields. The
    function raises an error for invalid fields."""
    says_gone: Callable[[Fields], bool] = lambda _: False
    """Returns whether a line reports that the object of its name was deleted."""

    def line_of(self, name: str, entry: Entry) -> bytes:
        """Return the line of an entry of the page ``name``."""
        return line_of({self.name: name, **entry.fields()})

    def entry_of(self, line: bytes) -> tuple[str, Entry]:
        """Return the name and the entry in a line, which has no line feed. Raises NotALine."""
        fields = fields_of(line)
        try:
            read = self.kinds.get(fields["kind"])
            if read is None:
                raise NotALine(f"unknown kind {fields['kind']}")
            return text_of(fields[self.name]), read(fields)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise NotALine(f"not an entry: {error!r}") from None

    def name_of(self, line: bytes) -> tuple[str, bool]:
        """Return the name in a line, and whether the line reports its deletion. Raises NotALine."""
        fields = fields_of(line)
        return str(fields.get(self.name)), self.says_gone(fields)

    @property
    def first_line(self) -> bytes:
        """Return the first line of a file: the journal's header and version."""
        return line_of({self.header: self.version})

    def version_of(self, line: bytes) -> int:
        """Return the version in the first line of a file. Raises NotALine."""
        version = fields_of(line).get(self.header)
        if not isinstance(version, int):
            raise NotALine("the version is missing")
        return version


def line_of(fields: Fields) -> bytes:
    """Return a JSON object as a line."""
    body = json.dumps(fields, separators=(",", ":")).encode()
    return b"%08x %b\n" % (crc32c(body), body)


def fields_of(line: bytes) -> Fields:
    """Return the JSON object in a line, which has no line feed. Raises NotALine."""
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
    """Returns ``value`` if it is a string. Raises TypeError for other values."""
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not text")
    return value


def number_of(value: Any) -> int:
    """Returns ``value`` if it is a whole number. Raises TypeError for other values."""
    if not isinstance(value, int):
        raise TypeError(f"{value!r} is not a number")
    return value


def listed_of(value: Any) -> list[Any]:
    """Returns ``value`` if it is a list. Raises TypeError for other values."""
    if not isinstance(value, list):
        raise TypeError(f"{value!r} is not a list")
    return value
