"""Java share consumers process thousands of records while consumers and the broker are killed. Each
record is delivered until it is accepted, and no accepted record is delivered again."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from threading import Lock
from typing import Any

import pytest

from tests import java, waiting
from tests.broker.topic_calls import create_topic, produce
from tests.brokers import Broker
from tests.interop.programs import Program
from tests.waiting import Watch
from tests.wire import Wire, batch

pytestmark = pytest.mark.interop
PARTITIONS = 3
RECORDS = 9_000
IN_A_BATCH = 25
MODES = ("sync", "async", "auto")
Record = tuple[int, int]
"""The partition and the offset of a record."""


class Deliveries:
    """The reports of all consumers of a group, in the order of their arrival."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.delivered: set[Record] = set()
        self.accepted: set[Record] = set()
        self.accepted_before: set[Record] = set()
        """The records whose acceptance a consumer had reported before the broker was killed."""
        self.again: list[Record] = []
        """The records of ``accepted_before`` that were delivered again."""

    def take(self, event: dict[str, Any]) -> None:
        name = event.get("name")
        if name not in ("records_consumed", "offsets_acknowledged"):
            return
        records: set[Record] = {
            (each["partition"], offset)
            for each in event["partitions"]
            for offset in each["offsets"]
        }
        with self.lock:
            if name == "records_consumed":
                self.delivered |= records
                self.again += records & self.accepted_before
            elif event.get("success"):
                self.accepted |= records

    def mark(self) -> int:
        """Copies the accepted records to ``accepted_before``. Returns their number."""
        with self.lock:
            self.accepted_before = set(self.accepted)
            return len(self.accepted_before)


class ShareConsumer(Program):
    """A process of VerifiableShareConsumer that accepts the records of each poll."""

    def __init__(
        self, broker: Broker, name: str, mode: str, deliveries: Deliveries, watch: Watch
    ) -> None:
        self.deliveries = deliveries
        command = java.command(
            java.KAFKA_NEW,
            "org.apache.kafka.tools.VerifiableShareConsumer",
            *("--bootstrap-server", broker.bootstrap),
            *("--topic", name),
            *("--group-id", name),
            *("--acknowledgement-mode", mode),
            *("--offset-reset-strategy", "earliest"),
        )
        super().__init__(f"share consumer {mode}", command, watch)

    def _said(self, line: str) -> None:
        super()._said(line)
        if line.startswith("{"):
            self.deliveries.take(json.loads(line))


class Scene:
    """A topic, and one share consumer for each acknowledgement mode."""

    def __init__(self, broker: Broker, name: str) -> None:
        self.broker, self.name = broker, name
        self.deliveries, self.watch = Deliveries(), Watch()
        with Wire(broker.port) as wire:
            create_topic(wire, name, PARTITIONS)
        self.members = [self.joined(mode) for mode in MODES]

    def joined(self, mode: str) -> ShareConsumer:
        return ShareConsumer(self.broker, self.name, mode, self.deliveries, self.watch)

    def produce(self, first: int, last: int) -> None:
        with Wire(self.broker.port) as wire:
            for number in range(first, last, IN_A_BATCH):
                values = [b"%d" % each for each in range(number, number + IN_A_BATCH)]
                produce(wire, self.name, batch(*values), number // IN_A_BATCH % PARTITIONS)

    def is_assigned(self) -> bool:
        asked = {"group_ids": [self.name], "include_authorized_operations": False}
        with Wire(self.broker.port) as wire:
            (found,) = wire.call("ShareGroupDescribe", 1, asked)["groups"]
        has = [bool(each["assignment"]["topic_partitions"]) for each in found.get("members", ())]
        return has == [True] * len(self.members)

    def lags(self) -> list[int]:
        asked = {"groups": [{"group_id": self.name, "topics": None}]}
        with Wire(self.broker.port) as wire:
            (found,) = wire.call("DescribeShareGroupOffsets", 1, asked)["groups"]
        return [each["lag"] for topic in found["topics"] for each in topic["partitions"]]


@pytest.fixture
def scene(brokers: Callable[..., Broker], name: str) -> Iterator[Scene]:
    found = Scene(brokers(), name)
    try:
        yield found
    finally:
        for member in found.members:
            member.kill()


def test_share_consumers_accept_each_record_once_when_the_broker_is_killed(scene: Scene) -> None:
    waiting.until("each member has a partition", scene.is_assigned, 120)
    scene.produce(0, RECORDS // 3)
    waiting.until("half is accepted", lambda: len(scene.deliveries.accepted) > RECORDS // 6, 120)
    scene.members[0].process.send_signal(signal.SIGKILL)
    scene.produce(RECORDS // 3, RECORDS * 2 // 3)
    waiting.until("more is accepted", lambda: len(scene.deliveries.accepted) > RECORDS // 3, 120)
    assert scene.deliveries.mark() > RECORDS // 3
    scene.broker.kill()
    scene.broker.start()
    scene.members.append(scene.joined("sync"))
    scene.produce(RECORDS * 2 // 3, RECORDS)
    waiting.until("no record is left", lambda: scene.lags() == [0] * PARTITIONS, 180)
    assert scene.deliveries.again == []
    assert len(scene.deliveries.delivered) == RECORDS
