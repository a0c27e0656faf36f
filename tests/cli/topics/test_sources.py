"""The records that `muster produce` reads from lines, files and JSON."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from cli.errors import CommandError
from cli.topics import sources
from cli.topics.sources import Shape, of_files, of_lines
from protocol.records.section import Record
from tests.cli.running import stream


class Slow(io.BytesIO):
    """A stream that returns one of the given byte strings at each read, like a pipe."""

    def __init__(self, *pieces: bytes) -> None:
        super().__init__()
        self.pieces = list(pieces)

    def read1(self, size: int | None = -1, /) -> bytes:
        return self.pieces.pop(0) if self.pieces else b""


def reading(monkeypatch: pytest.MonkeyPatch, *pieces: bytes) -> Slow:
    slow = Slow(*pieces)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(slow))
    return slow


def test_record_of_an_input_line_is_sent_as_soon_as_the_line_is_complete(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slow = reading(monkeypatch, b"one\ntwo\nth", b"r", b"ee\r\n\n", b"last")
    pieces = of_lines([], Shape())

    first = next(pieces)
    assert [(each.record.value, each.what) for each in first] == [
        (b"one", "line 1"),
        (b"two", "line 2"),
    ]
    assert len(slow.pieces) == 3
    rest = [each for piece in pieces for each in piece]
    assert [(each.record.value, each.what) for each in rest] == [
        (b"three", "line 3"),
        (b"", "line 4"),
        (b"last", "line 5"),
    ]


def test_line_longer_than_the_limit_is_rejected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sources, "LONGEST", 1 << 20)
    reading(monkeypatch, b"short\n", *[b"x" * (1 << 18)] * 5)
    with pytest.raises(CommandError, match="line 2 is too long for a record: more than 1 MiB"):
        list(of_lines([], Shape()))


def test_file_is_read_as_one_record_or_as_one_record_per_line(tmp_path: Path) -> None:
    path = tmp_path / "two"
    path.write_bytes(b"\xff\n\0")

    [[whole]] = of_files([str(path)], Shape(key=b"k"))
    [one], [two] = of_lines([str(path)], Shape())
    assert whole == (Record(0, -1, b"k", b"\xff\n\0"), str(path))
    assert (one.record.value, one.what) == (b"\xff", f"{path}, line 1")
    assert (two.record.value, two.what) == (b"\0", f"{path}, line 2")


@pytest.mark.parametrize("read", [of_files, of_lines])
def test_error_about_a_missing_file_names_the_file(read: object, tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="none can't be read: No such file or directory"):
        list(read([str(tmp_path / "none")], Shape()))  # type: ignore[operator]


@pytest.mark.parametrize("read", [of_files, of_lines])
def test_error_names_the_file_that_can_not_be_read(read: object) -> None:
    with pytest.raises(CommandError, match="/proc/self/mem can't be read: Input/output error"):
        list(read(["/proc/self/mem"], Shape()))  # type: ignore[operator]


@pytest.mark.parametrize(
    ("shape", "line", "record"),
    [
        (Shape(separator=b":"), b"a:b:c", Record(0, -1, b"a", b"b:c")),
        (Shape(separator=b":"), b":v", Record(0, -1, b"", b"v")),
        (Shape(separator=b":", null=b"-"), b"-:-", Record(0, -1, None, None)),
        (Shape(key=b"k", headers=(("h", b"v"),)), b"v", Record(0, -1, b"k", b"v", (("h", b"v"),))),
        (Shape(timestamp_ms=5), b"v", Record(0, 5, None, b"v")),
        (
            Shape(is_json=True, headers=(("b", b"2"),)),
            b'{"value": null, "timestamp_ms": 3, "headers": [{"name": "a", "value": "1"}]}',
            Record(0, 3, None, None, (("a", b"1"), ("b", b"2"))),
        ),
        (Shape(is_json=True, timestamp_ms=5), b'{"value": "v", "timestamp_ms": 3}',
         Record(0, 5, None, b"v")),
    ],
)  # fmt: skip
def test_produce_options_set_the_fields_of_a_record(
    shape: Shape, line: bytes, record: Record
) -> None:
    assert shape.outgoing(line, "line 1").record == record


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (b'{"value"', "line 1 is not JSON: Expecting ':' delimiter, column 9"),
        (b"\xff", "line 1 is not UTF-8"),
        (b"[" * 100_000, "line 1 is not UTF-8"),
        (b"7", "line 1 is not a JSON object"),
    ],
)
def test_error_about_invalid_json_names_its_line(line: bytes, says: str) -> None:
    with pytest.raises(CommandError) as error:
        Shape(is_json=True).outgoing(line, "line 1")
    assert str(error.value) == says


def test_error_about_a_missing_key_separator_names_the_line() -> None:
    with pytest.raises(CommandError, match="line 2 does not contain the key separator ':'"):
        Shape(separator=b":").outgoing(b"none", "line 2")


def test_empty_lines_between_json_records_are_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", stream(b'{"value": "a"}\n\n{"value": "b"}\n  \n'))
    read = [
        (each.record.value, each.what)
        for piece in of_lines([], Shape(is_json=True))
        for each in piece
    ]
    assert read == [(b"a", "line 1"), (b"b", "line 3")]
