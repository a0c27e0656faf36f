"""Group to partition is Kafka's: its tools compute the same."""

from __future__ import annotations

import pytest

from offsets.partitioner import java_hash, partition_for

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
def test_known_groups(group_id: str, hashed: int, partition: int) -> None:
    assert java_hash(group_id) == hashed
    assert partition_for(group_id, 50) == partition


def test_one_partition_takes_all() -> None:
    assert {partition_for(f"group-{i}", 1) for i in range(100)} == {0}
