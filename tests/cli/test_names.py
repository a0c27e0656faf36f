"""How commands parse and print partitions, hosts, members and control characters."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.errors import CommandError
from cli.names import (
    numbered,
    owned,
    parse_partitions,
    partitions_text,
    safe,
    with_plain_hosts,
)
from verdicts.spelling import plain_host


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("t", ("t", None)),
        ("t:0", ("t", [0])),
        ("t:1,4-6", ("t", [1, 4, 5, 6])),
        ("t:4-5,5,0", ("t", [0, 4, 5])),
    ],
)
def test_function_parse_partitions_returns_topic_and_partition_numbers(
    text: str, expected: Any
) -> None:
    assert parse_partitions(text) == expected


@pytest.mark.parametrize(
    "text",
    ["", ":1", "t:", "t:-1", "t:1-", "t:a", "t:5-4", "t:0-99999999", "t:2147483648", "t:٣",
     "t:" + "9" * 5000],
)  # fmt: skip
def test_invalid_partitions_are_rejected(text: str) -> None:
    with pytest.raises(CommandError) as caught:
        parse_partitions(text)
    assert caught.value.exit_code == 2


@given(st.sets(st.integers(0, 300), min_size=1))
def test_function_parse_partitions_accepts_the_output_of_function_partitions_text(
    numbers: set[int],
) -> None:
    assert parse_partitions(partitions_text("orders", numbers)) == ("orders", sorted(numbers))


def test_json_output_has_the_partitions_of_a_member_as_lists_of_numbers() -> None:
    found = owned({"b": [1, 0], "a": [2], "none": []})
    assert found == [
        {"topic": "a", "partitions": [2]},
        {"topic": "b", "partitions": [0, 1]},
    ]


@pytest.mark.parametrize("host", ["127.0.0.1", "/127.0.0.1", "client.example/127.0.0.1"])
def test_host_is_printed_as_an_ip_address(host: str) -> None:
    assert plain_host(host) == "127.0.0.1"


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("/10.0.0.1", "10.0.0.1"),
        ("app-1 from /10.0.0.1 joined, /::1 left", "app-1 from 10.0.0.1 joined, ::1 left"),
        ("/0:0:0:0:0:0:0:1", "0:0:0:0:0:0:0:1"),
        ("http://10.0.0.1/x and /var/log, 1/2", "http://10.0.0.1/x and /var/log, 1/2"),
    ],
)
def test_hosts_in_sentences_are_printed_as_ip_addresses(text: str, plain: str) -> None:
    assert with_plain_hosts({"why": [text, 7]}) == {"why": [plain, 7]}


def test_table_rows_show_a_member_as_its_number_in_the_group() -> None:
    members = [{"member": f"app-{n}", "client": "app", "host": f"10.0.0.{n}"} for n in (1, 2)]
    rows = numbered([{"member": "app-2"}, {"member": None}, {"member": "gone"}], members)
    assert rows == [
        {"member": "#2", "client": "app", "host": "10.0.0.2"},
        {"member": None},
        {"member": "gone"},
    ]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("grün 注文", "grün 注文"),
        ("a\nb\tc", "a\\nb\\tc"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("\u202egnp.exe", "\\u202egnp.exe"),
        ("caf\udce9", "caf\\udce9"),
    ],
)
def test_control_characters_in_names_are_escaped(text: str, shown: str) -> None:
    assert safe(text) == shown
    assert safe(text).encode()
