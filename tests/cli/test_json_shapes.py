"""The JSON of commands has lists and numbers, not strings that a program would have to parse."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cli.shop import LINES, Shop, open_shop

pytestmark = pytest.mark.interop

MORE = [
    "topics create fresh",
    "topics grow orders -p 3",
    "produce orders -v x -k y",
    "consume orders --from-beginning -n 1",
    "groups why live",
    "transactions why orders:0",
    "transactions why billing-1",
    "transactions hanging",
    "transactions abort billing-1 --dry-run",
    "groups reset billing --topic orders:0 --to-latest --execute",
    "offsets set billing orders:0=0 --dry-run",
    "offsets delete billing --topic orders --dry-run",
    "config check PROPERTIES",
    "cluster check",
]
FREE_TEXT = {
    "value", "text", "sentence", "advice", "why", "detail", "documentation", "note", "error",
    "command", "last_why", "key", "before", "after", "synonyms",
}  # fmt: skip
"""Fields whose value is a sentence, or a text that a user has chosen."""
TO_PARSE = {
    "partitions of a topic": re.compile(r"[\w.-]+:\d+(-\d+)?(,\d+(-\d+)?)*"),
    "a list of numbers": re.compile(r"\d+(, ?\d+)+"),
    "a number": re.compile(r"-?\d+(\.\d+)?"),
    "a host with Java's slash": re.compile(r".*/[\d.]+(:\d+)?"),
    "truth": re.compile(r"yes|no|true|false"),
    "nothing": re.compile(r"-|"),
}
ADDRESSES = {"address", "coordinator"}


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    with open_shop(tmp_path_factory.mktemp("json")) as made:
        yield made


def strings(value: Any, *path: str) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yields each string in a JSON value, preceded by the names of the fields that enclose the
    string."""
    if isinstance(value, dict):
        for field, each in value.items():
            yield from strings(each, *path, field)
    elif isinstance(value, list):
        for each in value:
            yield from strings(each, *path)
    elif isinstance(value, str):
        yield path, value


def to_parse(value: Any) -> list[str]:
    """Searches a JSON value for strings that a script would have to parse, such as numbers (see
    `TO_PARSE`). Returns a description of each of them."""
    found = []
    for path, text in strings(value):
        if FREE_TEXT & set(path) or ADDRESSES & set(path[-1:]):
            continue
        found += [
            f"{'.'.join(path)}: {text!r} is {what}"
            for what, form in TO_PARSE.items()
            if form.fullmatch(text)
        ]
    return found


@pytest.mark.parametrize("line", [*LINES, *MORE])
def test_json_output_has_no_strings_that_scripts_must_parse(line: str, shop: Shop) -> None:
    ran = shop.run(line, "--json")
    assert ran.out, ran.err
    for part in parts_of(ran.out):
        assert not to_parse(part)


def parts_of(out: str) -> list[Any]:
    """Returns the JSON values in the output of a command, which prints one value, or one value per
    line."""
    try:
        return [json.loads(out)]
    except ValueError:
        return [json.loads(line) for line in out.splitlines()]


@pytest.mark.smoke
@pytest.mark.planted("shapes of JSON")
@pytest.mark.parametrize(
    "value",
    [
        {"members": [{"partitions": ["orders:0,1"]}]},
        {"replicas": "1, 2"},
        {"lag": "7"},
        {"host": "/127.0.0.1"},
        [{"internal": "yes"}],
    ],
)
def test_json_checker_rejects_numbers_lists_and_booleans_that_are_encoded_as_strings(
    value: Any,
) -> None:
    assert len(to_parse(value)) == 1
