"""The formats in which `muster consume` prints a record."""

from __future__ import annotations

import pytest

from cli.errors import CommandError
from cli.topics.formats import as_bytes, as_format, as_json, as_line, unescaped
from protocol.records.section import Record

WHERE = ("orders", 3)
HEADERS = (("trace", b"abc"), ("empty", None), ("odd", b"\xff"))
RECORD = Record(7, 1_795_353_450_808, b"k", b"one\xff", HEADERS)
TOMBSTONE = Record(8, -1, None, None)


@pytest.mark.parametrize(
    ("keys", "timestamps", "record", "printed"),
    [
        (False, False, RECORD, b"one\xff\n"),
        (True, False, RECORD, b"k\tone\xff\n"),
        (True, True, RECORD, b"2026-11-22T13:17:30.808Z\tk\tone\xff\n"),
        (True, True, TOMBSTONE, b"-\tnull\tnull\n"),
    ],
)
def test_consumed_record_is_written_unchanged_into_a_pipe(
    keys: bool, timestamps: bool, record: Record, printed: bytes
) -> None:
    assert as_line(keys, timestamps, on_terminal=False)(WHERE, record) == printed


def test_control_characters_of_a_record_are_escaped_on_a_terminal() -> None:
    record = Record(0, 0, None, b"\x1b[2J\tred\nna\xc3\xafve \xff")
    printed = as_line(False, False, on_terminal=True)(WHERE, record)
    formatted = as_format("%s", on_terminal=True)(WHERE, record)

    assert printed.decode() == "\\x1b[2J\tred\nnaïve \ufffd\n"
    assert formatted + b"\n" == printed


def test_raw_output_of_a_record_is_its_value_and_the_delimiter() -> None:
    assert as_bytes(b"\0")(WHERE, RECORD) == b"one\xff\0"
    assert as_bytes(b"")(WHERE, TOMBSTONE) == b""


def test_json_encodes_bytes_that_are_not_utf_8_in_base64() -> None:
    assert as_json(WHERE, RECORD) == (
        b'{"topic": "orders", "partition": 3, "offset": 7, "timestamp_ms": 1795353450808,'
        b' "key": "k", "value_base64": "b25l/w==", "headers": [{"name": "trace", "value": "abc"},'
        b' {"name": "empty", "value": null}, {"name": "odd", "value_base64": "/w=="}]}\n'
    )
    assert as_json(WHERE, TOMBSTONE) == (
        b'{"topic": "orders", "partition": 3, "offset": 8, "timestamp_ms": -1,'
        b' "key": null, "value": null, "headers": []}\n'
    )


@pytest.mark.parametrize(
    ("template", "record", "printed"),
    [
        ("%t:%p:%o", RECORD, b"orders:3:7"),
        (r"%k=%s\n", RECORD, b"k=one\xff\n"),
        ("%T %I", RECORD, b"1795353450808 2026-11-22T13:17:30.808Z"),
        ("%T %I", TOMBSTONE, b"-1 -"),
        ("%h", RECORD, b"trace=abc,empty=null,odd=\xff"),
        ("%h|", TOMBSTONE, b"|"),
        ("%K %S", RECORD, b"1 4"),
        ("%K %S %k %s", TOMBSTONE, b"-1 -1 null null"),
        (r"100%% \x41\0\t\\", RECORD, b"100% A\0\t\\"),
        ("", RECORD, b""),
    ],
)
def test_placeholders_of_a_format_are_replaced_by_the_record_fields(
    template: str, record: Record, printed: bytes
) -> None:
    assert as_format(template, on_terminal=False)(WHERE, record) == printed


@pytest.mark.parametrize(
    ("template", "says"),
    [
        ("%q", "--format: unknown field %q; choose one of %t topic, %p partition"),
        ("%s%", "--format: unknown field %; choose"),
        (r"%s\q", r"--format: unknown escape \q; choose one of \n \t"),
        ("%s\\", "--format: unknown escape \\; choose"),
        (r"\xZZ", r"--format: unknown escape \x; choose"),
    ],
)
def test_consume_rejects_an_invalid_output_format(template: str, says: str) -> None:
    with pytest.raises(CommandError) as error:
        as_format(template, on_terminal=False)
    assert str(error.value).startswith(says)
    assert error.value.exit_code == 2


def test_option_delimiter_accepts_the_escapes_of_option_format() -> None:
    assert unescaped(r"\n--\x00ä", "--delimiter") == b"\n--\0\xc3\xa4"
