"""A broker with the producers and groups of a small shop, for the pictures in the README and in the
documentation."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from tests.brokers import Broker, free_port
from tests.interop.cluster import Cluster, Feed
from tests.interop.group_members import Group, Member
from tests.waiting import until

TOPICS = {"orders": 6, "payments": 3, "clicks": 4}
GROUPS = {
    "billing": "orders", "shipping": "orders", "fraud-check": "payments",
    "recommendations": "clicks", "clickstream-archive": "clicks",
}  # fmt: skip
SLOW = {"shipping": 4, "clickstream-archive": 9}
"""The groups that commit only in every n-th round, each with its number n."""

# The fleet: the groups of the shop and two more groups, with problems.
FLEET = {**GROUPS, "mailer": "payments", "reports": "clicks"}
IN_TROUBLE = {
    "audit": "OUT_OF_RANGE",
    "reports": "BLOCKED",
    "recommendations": "STALLED",
    "billing": "STUCK_RECORD",
    "mailer": "FLAPPING",
    "fraud-check": "ABANDONED",
    "clickstream-archive": "LAGGING",
}
"""The expected verdict of each group that has a problem. The verdict of all other groups is OK."""
NEVER = 1 << 30
SLOW_FLEET = {"clickstream-archive": 24, "recommendations": NEVER}
STANDS_AT = ("orders", 3, 250)
"""Topic, partition and offset of the invalid record at which the group billing is stuck."""
SOON = {
    "group.verdict.blocked.ms": "3000",
    "group.verdict.stalled.ms": "20000",
    "group.verdict.stuck.record.ms": "12000",
    "group.verdict.abandoned.ms": "10000",
    "group.verdict.lagging.ms": "3000",
}
"""Broker settings with short thresholds of verdicts. With the default thresholds a verdict needs up
to a minute."""


class Sales(Feed):
    """Produces the records of the shop as JSON. The record at STANDS_AT is invalid JSON."""

    def send(self, records: int, within_s: float = 20.0) -> list[str]:
        values = []
        for _ in range(records):
            number = next(self._turn)
            partition, offset = number % self.partitions, number // self.partitions
            total = "NaN" if (self.topic, partition, offset) == STANDS_AT else f"{number % 90}.95"
            values.append(
                f'{{"{self.topic[:-1]}": {1000 + number}, "customer": "c-{number % 37}",'
                f' "items": [{{"sku": "tea-{number % 7}", "pieces": {1 + number % 3}}}],'
                f' "total": {total}, "currency": "EUR"}}'
            )
            self._producer.produce(
                self.topic,
                values[-1].encode(),
                key=f"c-{number % 37}",
                headers={"trace": f"{number:016x}", "from": "till-2"},
                partition=partition,
                on_delivery=self._delivered,
            )
        left = self._producer.flush(within_s)
        assert (left, self.failed) == (0, []), "records were not acknowledged"
        return values


class PageBroker(Broker):
    """A broker whose HTTP listener keeps its address `http` after a restart."""

    def __init__(self, data: Path, settings: Mapping[str, str] | None = None) -> None:
        super().__init__(data, settings, http=f"127.0.0.1:{free_port()}")

    def start(self) -> Broker:
        """Starts the broker, and waits until the HTTP listener is open."""
        super().start()
        until("the page is served", lambda: f"http://{self.http}" in self.tail())
        return self


def commit(
    broker: PageBroker, group: str, offset: int = 1, topic: str = "orders", partition: int = 0
) -> None:
    """Commits ``offset`` for a group without members, and retries until the coordinator accepts the
    commit."""
    read = {"partition_index": partition, "committed_offset": offset, "committed_metadata": ""}
    topics = [{"name": topic, "partitions": [read]}]
    cluster = Cluster(broker.bootstrap)
    cluster.call(
        "FindCoordinator", 0, key=group
    )  # the first FindCoordinator creates the offsets topic

    def taken() -> bool:
        reply = cluster.call("OffsetCommit", 7, group_id=group, topics=topics)
        return bool(reply["topics"][0]["partitions"][0]["error_code"] == 0)

    until(f"{group} commits", taken)


class Shop:
    """The groups of the shop. A thread makes all running members commit at regular intervals."""

    def __init__(
        self,
        broker: PageBroker,
        stack: ExitStack,
        groups: Mapping[str, str] = GROUPS,
        slow: Mapping[str, int] = SLOW,
    ) -> None:
        self.broker = broker
        self.groups = {
            name: stack.enter_context(
                Group("confluent", broker.bootstrap, name, topics=[topic], session_timeout_ms=2000)
            )
            for name, topic in groups.items()
        }
        self.members: dict[str, list[Member]] = {name: [] for name in groups}
        self._slow = slow
        self._ended = threading.Event()
        committer = threading.Thread(target=self._commit)
        committer.start()
        stack.callback(committer.join)
        stack.callback(self._ended.set)

    def start(self, group: str, name: str, **config: Any) -> Member:
        member = self.groups[group].start(name, **config)
        self.members[group].append(member)
        return member

    def kill(self, group: str) -> None:
        self.members[group].pop().kill()

    def _commit(self) -> None:
        rounds = 0
        while not self._ended.wait(0.7):
            rounds += 1
            for name, members in self.members.items():
                for member in list(members):
                    if member.process.poll() is None and rounds % self._slow.get(name, 1) == 0:
                        member.tell("commit")


class Fleet(Shop):
    """A shop whose groups get the problems of IN_TROUBLE when `go_wrong` is called."""

    def __init__(self, broker: PageBroker, stack: ExitStack) -> None:
        super().__init__(broker, stack, FLEET, SLOW_FLEET)

    def open(self) -> None:
        for group in FLEET:
            if group not in ("billing", "reports"):
                self.start(group, f"{group}-1")
        self.start("reports", "reports-1", session_timeout_ms=60_000)
        self.start("billing", "billing-1", stands_at=[STANDS_AT])

    def grow(self, name: str) -> None:
        self.start("billing", name, stands_at=[STANDS_AT])

    def go_wrong(self) -> None:
        """Causes the problem of each group in IN_TROUBLE. The verdicts of these groups change some
        seconds later."""
        self.members["fraud-check"].pop().leave()
        commit(self.broker, "audit", 60_000, "orders", 1)
        cluster = Cluster(self.broker.bootstrap)
        for _ in range(4):
            self.members["mailer"].pop().leave()
            self.start("mailer", "mailer-1")
            until("mailer is back", lambda: cluster.describe("mailer").sizes() == [3])
        self.members["reports"][0].pause()
        self.start("reports", "reports-2", session_timeout_ms=60_000)


@contextmanager
def shop(data: Path, port: int = 0) -> Iterator[tuple[PageBroker, Shop]]:
    """Yields a broker and a shop, and stops both after the block. The broker listens on ``port``,
    or on a free port if ``port`` is 0."""
    with ExitStack() as stack:
        yield (broker := _selling(data, {}, stack, port)), Shop(broker, stack)


@contextmanager
def fleet(data: Path) -> Iterator[tuple[PageBroker, Fleet]]:
    """Yields a broker with short verdict thresholds and a fleet, and stops both after the block."""
    with ExitStack() as stack:
        yield (broker := _selling(data, SOON, stack)), Fleet(broker, stack)


def _selling(
    data: Path, settings: Mapping[str, str], stack: ExitStack, port: int = 0
) -> PageBroker:
    """Starts a broker and the producers of the shop. Closing ``stack`` stops the broker and the
    producers."""
    broker = PageBroker(data, {"group.initial.rebalance.delay.ms": "300", **settings})
    broker.port = port
    broker.start()
    stack.callback(broker.stop)
    cluster = Cluster(broker.bootstrap)
    for topic, partitions in TOPICS.items():
        cluster.create_topic(topic, partitions)
        feed = stack.enter_context(Sales(broker.bootstrap, topic, partitions))
        feed.flow()
    return broker
