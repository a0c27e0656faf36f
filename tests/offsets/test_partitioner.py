"""Muster stores a group in the same partition of __consumer_offsets as Kafka."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offsets.partitioner import partition_for
from protocol.java_hash import java_hash

VECTORS = [
    # group id            Java's hash    of 50 partitions
    ("",                  0,             0),
    ("hello",             99162322,      22),
    ("test-group",        627841412,     12),
    ("my-group",          -1906497762,   12),
    ("grüße",             98768023,      23),
    ("a🙂",               1866182,       32),
    ("polygenelubricants", -2147483648,  0),
]  # fmt: skip


@pytest.mark.parametrize(("group_id", "hashed", "partition"), VECTORS)
def test_group_id_has_the_hash_and_partition_of_java(
    group_id: str, hashed: int, partition: int
) -> None:
    assert java_hash(group_id) == hashed
    assert partition_for(group_id, 50) == partition


def test_each_group_is_in_partition_0_of_a_topic_with_one_partition() -> None:
    assert {partition_for(f"group-{i}", 1) for i in range(100)} == {0}


@given(st.text(max_size=600))
def test_random_group_id_has_the_java_hash_of_its_utf16_units(group_id: str) -> None:
    units = group_id.encode("utf-16-be", "surrogatepass")
    value = 0
    for position in range(0, len(units), 2):
        value = (31 * value + int.from_bytes(units[position : position + 2], "big")) % (1 << 32)
    assert java_hash(group_id) % (1 << 32) == value


def test_hash_of_a_group_id_of_maximum_length_executes_few_python_lines() -> None:
    steps = 0

    def trace(frame: object, event: str, argument: object) -> object:
        nonlocal steps
        steps += event == "line"
        return trace

    sys.settrace(trace)  # type: ignore[arg-type]
    try:
        java_hash("g" * 32_767)
    finally:
        sys.settrace(None)
    assert steps < 32_767 / 10
