"""The output formats of `consume`: lines, raw bytes, JSON, or a kcat format."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

from cli.client.offsets_at import Partition
from cli.errors import USAGE, CommandError
from cli.names import safe
from cli.times import instant
from cli.topics.record_json import name_bytes, to_json
from protocol.records.section import Record

Printer = Callable[[Partition, Record], bytes]

NULL = b"null"
_ESCAPES = {"n": b"\n", "t": b"\t", "r": b"\r", "0": b"\0", "\\": b"\\"}
_TOKEN = re.compile(r"\\x[0-9a-fA-F]{2}|\\.|%.|[^%\\]+|.", re.DOTALL)
_FIELDS = {
    "t": "topic",
    "p": "partition",
    "o": "offset",
    "k": "key",
    "s": "value",
    "h": "headers",
    "T": "timestamp in ms",
    "I": "timestamp in UTC",
    "K": "bytes of the key",
    "S": "bytes of the value",
}


def as_line(keys: bool, timestamps: bool, on_terminal: bool) -> Printer:
    """Returns a printer that prints each value on one line, optionally after its time and key."""
    text = _shown if on_terminal else _plain

    def printed(_: Partition, record: Record) -> bytes:
        parts = [_instant(record)] if timestamps else []
        parts += [text(record.key)] if keys else []
        return b"\t".join([*parts, text(record.value)]) + b"\n"

    return printed


def as_bytes(delimiter: bytes) -> Printer:
    """Returns a printer that prints the bytes of each value, followed by ``delimiter``."""
    return lambda _, record: (record.value or b"") + delimiter


def as_json(where: Partition, record: Record) -> bytes:
    return json.dumps(to_json(where, record), ensure_ascii=False).encode() + b"\n"


def as_format(template: str, on_terminal: bool) -> Printer:
    r"""Returns a printer for a format such as ``%p:%o %s\n``. Raises CommandError for unknown
    fields."""
    parts: list[bytes | Printer] = []
    for token in _TOKEN.findall(template):
        if token.startswith("%") and token != "%%":
            parts.append(_field(token[1:], on_terminal))
        else:
            parts.append(b"%" if token == "%%" else unescaped(token, "--format"))

    def printed(where: Partition, record: Record) -> bytes:
        return b"".join(part if isinstance(part, bytes) else part(where, record) for part in parts)

    return printed


def unescaped(text: str, option: str) -> bytes:
    r"""Returns the text with the escapes ``\n``, ``\t``, ``\r``, ``\0``, ``\xHH`` and ``\\``
    replaced."""
    out = bytearray()
    for token in re.findall(r"\\x[0-9a-fA-F]{2}|\\.?|[^\\]+", text, re.DOTALL):
        if not token.startswith("\\"):
            out += token.encode("utf-8", "surrogateescape")
        elif len(token) == 4:
            out += bytes.fromhex(token[2:])
        elif token[1:] in _ESCAPES:
            out += _ESCAPES[token[1:]]
        else:
            raise CommandError(
                f"{option}: unknown escape {token}; choose one of \\n \\t \\r \\0 \\xHH \\\\", USAGE
            )
    return bytes(out)


def _field(letter: str, on_terminal: bool) -> Printer:
    text = _shown if on_terminal else _plain
    printers: dict[str, Printer] = {
        "t": lambda where, _: where[0].encode(),
        "p": lambda where, _: b"%d" % where[1],
        "o": lambda _, record: b"%d" % record.offset,
        "k": lambda _, record: text(record.key),
        "s": lambda _, record: text(record.value),
        "h": lambda _, record: b",".join(
            text(name_bytes(name)) + b"=" + text(value) for name, value in record.headers
        ),
        "T": lambda _, record: b"%d" % record.timestamp,
        "I": lambda _, record: _instant(record),
        "K": lambda _, record: b"%d" % _size(record.key),
        "S": lambda _, record: b"%d" % _size(record.value),
    }
    if letter not in printers:
        known = ", ".join(f"%{each} {means}" for each, means in _FIELDS.items())
        raise CommandError(f"--format: unknown field %{letter}; choose one of {known}", USAGE)
    return printers[letter]


def _plain(data: bytes | None) -> bytes:
    return NULL if data is None else data


def _shown(data: bytes | None) -> bytes:
    """Returns UTF-8 for a terminal. Control characters except tabs and line ends are escaped."""
    if data is None:
        return NULL
    lines = data.decode(errors="replace").split("\n")
    return "\n".join("\t".join(map(safe, line.split("\t"))) for line in lines).encode()


def _instant(record: Record) -> bytes:
    return b"-" if record.timestamp < 0 else instant(record.timestamp, to_the_ms=True).encode()


def _size(data: bytes | None) -> int:
    return -1 if data is None else len(data)
