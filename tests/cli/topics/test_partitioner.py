"""Tests that the partitioner and the range assignor return the same results as the Java client, and
that host addresses are parsed."""

from __future__ import annotations

import pytest
from kafka.partitioner.default import murmur2 as independent_murmur2

from cli.client.cluster import parse_address
from cli.client.group_member import range_assignment
from cli.errors import CommandError
from cli.topics.producing import murmur2, partition_of_key


@pytest.mark.parametrize("key", [b"", b"a", b"ab", b"abc", b"abcd", b"21", b"foobar", bytes(99)])
def test_murmur2_agrees_with_another_implementation(key: bytes) -> None:
    assert murmur2(key) == independent_murmur2(key) & 0xFFFFFFFF


def test_partition_of_a_key_is_murmur2_modulo_the_partition_count() -> None:
    assert {partition_of_key(b"21", n) for n in (1, 2, 7)} <= {0, 1, 2, 3, 4, 5, 6}
    assert partition_of_key(b"foobar", 1000) == (murmur2(b"foobar") & 0x7FFFFFFF) % 1000


def test_range_assignor_gives_surplus_partitions_to_the_first_members() -> None:
    members = {"b": ["t"], "a": ["t", "u"], "c": ["t"]}

    assert range_assignment(members, {"t": 7, "u": 2}) == {
        "a": {"t": [0, 1, 2], "u": [0, 1]},
        "b": {"t": [3, 4]},
        "c": {"t": [5, 6]},
    }


def test_address_without_a_port_has_port_9092() -> None:
    assert parse_address("kafka:9093") == ("kafka", 9093)
    assert parse_address("kafka") == ("kafka", 9092)
    assert parse_address("[::1]:9093") == ("::1", 9093)
    assert parse_address("[::1]") == ("::1", 9092)


@pytest.mark.parametrize(
    "text",
    ["", ":9092", "host:port", "host:0", "host:70000", "host:²", "host:" + "9" * 5000],
)
def test_invalid_address_is_rejected(text: str) -> None:
    with pytest.raises(CommandError, match="HOST:PORT"):
        parse_address(text)
