"""`offsets import` reads the files that `offsets export` writes. Errors name the invalid line or
entry."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.client.group_reads import Committed
from cli.errors import USAGE, CommandError
from cli.offsets.files import as_csv, as_json, read

NAMES = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=12)
COMMITTED = st.builds(
    Committed,
    st.integers(0, (1 << 63) - 1),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\0"), max_size=20),
    st.integers(-1, (1 << 31) - 1),
)
OFFSETS = st.dictionaries(st.tuples(NAMES, st.integers(0, 1000)), COMMITTED, min_size=1, max_size=4)
GROUPS = st.dictionaries(NAMES, OFFSETS, min_size=1, max_size=3)


@given(GROUPS)
def test_offsets_are_equal_after_they_are_written_as_json_or_csv_and_read(
    groups: dict[str, dict[tuple[str, int], Committed]],
) -> None:
    assert read(as_json(groups), "f", None) == groups
    assert read(as_csv(groups), "f", None) == groups


def test_offsets_file_may_be_a_csv_export_of_kafka_consumer_groups() -> None:
    three = read('"orders",0,9\n', "f", "g")
    four = read('"g","orders",0,9\n', "f", None)
    assert three == four == {"g": {("orders", 0): Committed(9)}}


def test_offsets_file_of_a_single_group_can_be_read_for_another_group() -> None:
    assert list(read("a,t,0,1\n", "f", "b")) == ["b"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "f is not valid JSON"),
        ("{}", '{"version": 1'),
        ('{"version": 1, "groups": [{}]}', "group 1: the list of offsets is missing"),
        (
            '{"version": 1, "groups": [{"group": 1, "offsets": [{"topic": "t"}]}]}',
            "must be strings",
        ),
        ('{"version": 1, "groups": [{"offsets": [[]]}]}', "offset 1 is not a JSON object"),
        ("t,0,1,2,3\n", "line 1: has 5 columns"),
        ("t,0,1\nt,0\n", "line 2: has 2 columns instead of 3"),
        ("t,zero,1\n", "line 1: partition is 'zero'"),
        ("t,0,-1\n", "line 1: offset is '-1'"),
        ("t,0,9223372036854775808\n", "line 1: offset is"),
        ("t,0,1\nt,0,2\n", "line 2: t:0 is a duplicate"),
        ("t,0,1\n", "does not name a group"),
        ("a,t,0,1\nb,t,0,1\n", "offsets of 2 groups"),
    ],
)
def test_invalid_offsets_file_is_rejected_with_the_line_or_entry(text: str, says: str) -> None:
    group = "g" if says == "offsets of 2 groups" else None
    with pytest.raises(CommandError) as caught:
        read(text, "f", group)
    assert says in str(caught.value)
    assert caught.value.exit_code == USAGE
