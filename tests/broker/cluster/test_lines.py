"""Tests that few log lines are written when many partitions change or when a failure continues."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from broker.cluster.lines import AGAIN_MS, FEW, PartitionLines, Trouble
from tests.broker.mock_time import MockTime


@pytest.mark.parametrize("count", [1, FEW])
def test_each_partition_change_has_its_own_log_line_when_few_partitions_change(count: int) -> None:
    lines = PartitionLines()
    with capture_logs() as written:
        for index in range(count):
            lines.add("became leader", f"t-{index}", leader_epoch=index)
        lines.write()
        lines.write()
    assert [(each["partition"], each["leader_epoch"]) for each in written] == [
        (f"t-{index}", index) for index in range(count)
    ]


def test_changes_of_many_partitions_share_one_log_line() -> None:
    lines = PartitionLines()
    with capture_logs() as written:
        for index in range(3000):
            lines.add("became leader", f"t-{index}", leader_epoch=index)
        lines.add("became follower", "t-3000")
        lines.write()
    assert [(each["event"], each.get("count")) for each in written] == [
        ("became leader", 3000),
        ("became follower", None),
    ]
    assert written[0]["partitions"] == [*[f"t-{index}" for index in range(FEW)], "..."]


def test_continuing_failure_is_logged_immediately_and_then_once_a_minute() -> None:
    time = MockTime()
    trouble = Trouble(time)
    told = []
    for _ in range(150):
        told.append(trouble.is_news())
        time.move(1000)
    assert [at for at, is_told in enumerate(told) if is_told] == [0, 60, 120]
    assert AGAIN_MS == 60_000
    assert trouble.attempts == 150
    assert trouble.is_over()
    assert not trouble.is_over()
    assert trouble.is_news()
