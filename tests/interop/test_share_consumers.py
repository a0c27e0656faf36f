"""Java share consumers (KIP-932) share the records of a topic, and one of the consumers is
killed."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator

import pytest

from tests import java, waiting
from tests.broker.topic_calls import create_topic, produce
from tests.brokers import Broker
from tests.interop.programs import Program
from tests.waiting import Watch
from tests.wire import Wire, batch

pytestmark = pytest.mark.interop
PARTITIONS = 2
RECORDS = 200


class ShareConsumer(Program):
    """A process of VerifiableShareConsumer, and the records that it has reported. It acknowledges
    records after each poll."""

    def __init__(self, broker: Broker, topic: str, group: str, watch: Watch) -> None:
        self.seen: list[tuple[int, int]] = []
        """Partition and offset of each record that the consumer has reported."""
        command = java.command(
            java.KAFKA_NEW,
            "org.apache.kafka.tools.VerifiableShareConsumer",
            *("--bootstrap-server", broker.bootstrap),
            *("--topic", topic),
            *("--group-id", group),
            *("--acknowledgement-mode", "sync"),
            *("--offset-reset-strategy", "earliest"),
        )
        super().__init__(f"share consumer of {group}", command, watch)

    def _said(self, line: str) -> None:
        super()._said(line)
        event = json.loads(line) if line.startswith("{") else {"name": ""}
        if event["name"] == "records_consumed":
            for each in event["partitions"]:
                self.seen += [(each["partition"], offset) for offset in each["offsets"]]


class ShareGroup:
    """Three share consumers of one group."""

    def __init__(self, broker: Broker, wire: Wire, topic: str, group: str) -> None:
        self.group = group
        self.wire = wire
        self.watch = Watch()
        self.members = [ShareConsumer(broker, topic, group, self.watch) for _ in range(3)]

    def is_assigned(self) -> bool:
        asked = {"group_ids": [self.group], "include_authorized_operations": False}
        (found,) = self.wire.call("ShareGroupDescribe", 1, asked)["groups"]
        has = [bool(each["assignment"]["topic_partitions"]) for each in found.get("members", ())]
        return has == [True] * len(self.members)

    def lags(self) -> list[int]:
        asked = {"groups": [{"group_id": self.group, "topics": None}]}
        (found,) = self.wire.call("DescribeShareGroupOffsets", 1, asked)["groups"]
        return [each["lag"] for topic in found["topics"] for each in topic["partitions"]]

    def seen(self) -> set[tuple[int, int]]:
        return {record for member in self.members for record in list(member.seen)}


@pytest.fixture
def group(broker: Broker, name: str) -> Iterator[ShareGroup]:
    with Wire(broker.port) as wire:
        create_topic(wire, name, PARTITIONS)
        found = ShareGroup(broker, wire, name, name)
        try:
            yield found
        finally:
            for member in found.members:
                member.kill()


@pytest.mark.proves("share 11")
def test_share_consumers_get_all_records_although_one_consumer_is_killed(
    broker: Broker, group: ShareGroup, name: str
) -> None:
    waiting.until("each member has a partition", group.is_assigned, 120)
    for number in range(RECORDS):
        produce(group.wire, name, batch(b"%d" % number), number % PARTITIONS)
        if number == RECORDS // 2:
            group.members[0].process.send_signal(signal.SIGKILL)
    # Records whose consumption the killed process did not report are completed all the same.
    waiting.until("all records are completed", lambda: group.lags() == [0] * PARTITIONS, 120)
    unreported = RECORDS - len(group.seen())
    assert unreported <= RECORDS // 2
    assert all(member.seen for member in group.members[1:])
