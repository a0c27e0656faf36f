"""Reads the input of `produce`: lines, JSON lines, whole files, or values on the command line. Each
piece of input is sent before the next piece is read. Therefore an endless stream needs little
memory, and a line from `tail -f` is sent at once."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple

from cli.errors import USAGE, CommandError
from cli.files import unreadable
from cli.topics.record_json import from_json
from protocol.records.section import NO_TIMESTAMP, Headers, Record

PIECE_BYTES = 256 * 1024
LONGEST = 64 << 20
"""The maximum size of a record in bytes: far more than a broker accepts."""
STDIN = "-"


class Outgoing(NamedTuple):
    """A record to send. Errors name the record as ``what``, such as line 7."""

    record: Record
    what: str


class Shape(NamedTuple):
    """The options that say how records are made from lines, files or values, and that are equal
    for all records."""

    key: bytes | None = None
    separator: bytes | None = None
    """The text between the key and the value in a line."""
    null: bytes | None = None
    """A key or value equal to this text is produced as null."""
    headers: Headers = ()
    timestamp_ms: int | None = None
    is_json: bool = False

    def outgoing(self, data: bytes, what: str) -> Outgoing:
        """Returns the record for the bytes of a line, a file or a value."""
        if self.is_json:
            record = from_json(_json(data, what), what)
            record = record._replace(headers=(*record.headers, *self.headers))
        else:
            key, value = self._cut(data, what)
            record = Record(0, NO_TIMESTAMP, self._or_null(key), self._or_null(value), self.headers)
        if self.timestamp_ms is not None:
            record = record._replace(timestamp=self.timestamp_ms)
        return Outgoing(record, what)

    def tombstone(self) -> Outgoing:
        timestamp = NO_TIMESTAMP if self.timestamp_ms is None else self.timestamp_ms
        return Outgoing(Record(0, timestamp, self.key, None, self.headers), "the tombstone")

    def _cut(self, data: bytes, what: str) -> tuple[bytes | None, bytes]:
        if self.separator is None:
            return self.key, data
        key, found, value = data.partition(self.separator)
        if not found:
            raise CommandError(
                f"{what} does not contain the key separator {self.separator.decode()!r}", USAGE
            )
        return key, value

    def _or_null(self, data: bytes | None) -> bytes | None:
        return None if self.null is not None and data == self.null else data


def _json(data: bytes, what: str) -> object:
    try:
        return json.loads(data)
    except json.JSONDecodeError as error:
        raise CommandError(
            f"{what} is not JSON: {error.msg}, column {error.colno}", USAGE
        ) from None
    except (UnicodeDecodeError, RecursionError):
        raise CommandError(f"{what} is not UTF-8", USAGE) from None


def of_values(values: Iterable[bytes], shape: Shape) -> Iterator[list[Outgoing]]:
    """Yields one list, with a record for each value."""
    yield [shape.outgoing(value, f"value {number}") for number, value in enumerate(values, 1)]


def of_files(paths: Sequence[str], shape: Shape) -> Iterator[list[Outgoing]]:
    """Yields one list for each file. The list has one record, whose value is the content of the
    file."""
    for path in paths:
        with _opened(path) as stream:
            data = stream.read(LONGEST + 1)
        if len(data) > LONGEST:
            raise _too_long(_name(path))
        yield [shape.outgoing(data, _name(path))]


def of_lines(paths: Sequence[str], shape: Shape) -> Iterator[list[Outgoing]]:
    """Yields lists of records. The records are made from the lines of the files, or of standard
    input if no files are given."""
    for path in paths or [STDIN]:
        prefix = "line" if path == STDIN else f"{path}, line"
        number = 0
        with _opened(path) as stream:
            for lines in _pieces(stream, prefix):
                yield [
                    shape.outgoing(line, f"{prefix} {each}")
                    for each, line in enumerate(lines, number + 1)
                    if line.strip() or not shape.is_json
                ]
                number += len(lines)


def _pieces(stream: BinaryIO, prefix: str) -> Iterator[list[bytes]]:
    """Reads a stream step by step. Yields the lines that each read has completed, without line
    ends."""
    begun = bytearray()
    number = 0
    while data := stream.read1(PIECE_BYTES):  # type: ignore[attr-defined]
        begun += data
        if len(begun) > LONGEST:
            raise _too_long(f"{prefix} {number + 1}")
        if b"\n" not in data:
            continue
        *lines, rest = bytes(begun).split(b"\n")
        begun = bytearray(rest)
        number += len(lines)
        yield [line.removesuffix(b"\r") for line in lines]
    if begun:
        yield [bytes(begun).removesuffix(b"\r")]


class _opened:
    """A context manager with an open file, or with standard input. Standard input stays open when
    the context ends. Errors name the file."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __enter__(self) -> BinaryIO:
        if self._path == STDIN:
            self._stream: BinaryIO = sys.stdin.buffer
        else:
            try:
                self._stream = Path(self._path).open("rb")
            except OSError as error:
                raise unreadable(Path(self._path), error) from None
        return self._stream

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if self._path != STDIN:
            self._stream.close()
        if isinstance(error, OSError):
            raise unreadable(Path(_name(self._path)), error) from None


def _name(path: str) -> str:
    return "standard input" if path == STDIN else path


def _too_long(what: str) -> CommandError:
    return CommandError(f"{what} is too long for a record: more than {LONGEST >> 20} MiB", USAGE)
