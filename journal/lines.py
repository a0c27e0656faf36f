"""The lines in which journals are written down: docs/groups-journal.md.

A line is the CRC-32C of its JSON in eight hexadecimal digits, a space, the JSON, and a line feed.
So what a crash tore or a disk damaged ends with the next line feed, and the lines behind it are
read.
"""

from __future__ import annotations

import json
from typing import Any

from protocol.records.crc import crc32c

_CRC_DIGITS = 8

Fields = dict[str, Any]


class NotALine(Exception):
    """A line is damaged, or says what it can't say."""


def line_of(fields: Fields) -> bytes:
    """A JSON object as a line."""
    body = json.dumps(fields, separators=(",", ":")).encode()
    return b"%08x %b\n" % (crc32c(body), body)


def header_of(name: str, version: int) -> bytes:
    """The first line of a file: what it is, and the version of its lines."""
    return line_of({name: version})


def version_of(name: str, line: bytes) -> int:
    """The version that the first line of a file names. Raises NotALine."""
    version = fields_of(line).get(name)
    if not isinstance(version, int):
        raise NotALine("it names no version")
    return version


def fields_of(line: bytes) -> Fields:
    """What a line, without its line feed, holds. Raises NotALine."""
    body = line[_CRC_DIGITS + 1 :]
    if line[_CRC_DIGITS : _CRC_DIGITS + 1] != b" " or line[:_CRC_DIGITS] != b"%08x" % crc32c(body):
        raise NotALine("its checksum is another")
    try:
        fields = json.loads(body)
    except (ValueError, RecursionError):
        fields = None
    if not isinstance(fields, dict):
        raise NotALine("it is no JSON object")
    return fields


def text_of(value: Any) -> str:
    """A field that must be text. Raises TypeError."""
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def number_of(value: Any) -> int:
    """A field that must be a whole number. Raises TypeError."""
    if not isinstance(value, int):
        raise TypeError(f"{value!r} is no number")
    return value


def listed_of(value: Any) -> list[Any]:
    """A field that must be a list. Raises TypeError."""
    if not isinstance(value, list):
        raise TypeError(f"{value!r} is no list")
    return value
