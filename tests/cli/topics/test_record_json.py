"""The JSON of a record. `consume` prints it, and `produce --from-json` parses it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.errors import CommandError
from cli.topics.record_json import from_json, to_json
from protocol.records.section import Record

some_bytes = st.one_of(st.none(), st.binary(max_size=20), st.text(max_size=20).map(str.encode))
names = st.binary(max_size=8).map(lambda data: data.decode("utf-8", "surrogateescape"))
headers = st.lists(st.tuples(names, some_bytes), max_size=3).map(tuple)


@given(some_bytes, some_bytes, headers, st.integers(-1, 1 << 42))
def test_record_is_equal_after_it_is_written_as_json_and_read(
    key: bytes | None,
    value: bytes | None,
    headers: tuple[tuple[str, bytes | None], ...],
    timestamp: int,
) -> None:
    record = Record(0, timestamp, key, value, headers)
    line = json.dumps(to_json(("orders", 1), record), ensure_ascii=False).encode()

    assert from_json(json.loads(line), "line 1") == record


def test_key_headers_and_timestamp_are_optional_in_json() -> None:
    assert from_json({"value": "one"}, "line 1") == Record(0, -1, None, b"one")


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("text", "line 3 is not a JSON object"),
        ({}, "line 3: value is missing; write null for a tombstone"),
        ({"value": {"a": 1}}, "line 3: value must be a string; write nested JSON"),
        ({"value": 7}, "line 3: value must be a string"),
        ({"value": "a", "value_base64": "YQ=="}, "line 3 has both value and value_base64"),
        ({"value_base64": "!"}, "line 3: value_base64 is not base64"),
        ({"value_base64": 7}, "line 3: value_base64 is not base64"),
        ({"value": None, "timestamp_ms": "now"}, "line 3: timestamp_ms must be a whole number"),
        ({"value": None, "timestamp_ms": 1 << 63}, "line 3: timestamp_ms must be a whole number"),
        ({"value": None, "headers": {}}, "line 3: headers must be a list"),
        ({"value": None, "headers": ["a"]}, 'line 3: a header must be {"name": ...'),
        ({"value": None, "headers": [{"value": "a"}]}, "line 3: a header's name is missing"),
        ({"value": None, "headers": [{"name": 1}]}, "a header of line 3: name must be a string"),
    ],
)
def test_error_about_an_invalid_json_record_names_its_line(value: object, says: str) -> None:
    with pytest.raises(CommandError) as error:
        from_json(value, "line 3")
    assert str(error.value).startswith(says)
    assert error.value.exit_code == 2
