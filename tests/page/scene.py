"""A broker with its page, and the life of a small shop on it: what the pictures in README show."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.brokers import Broker, free_port
from tests.interop.cluster import Cluster, Feed
from tests.interop.group_members import Group, Member
from tests.waiting import until

TOPICS = {"orders": 6, "payments": 3, "clicks": 4}
GROUPS = {
    "billing": "orders", "shipping": "orders", "fraud-check": "payments", "mailer": "payments",
    "recommendations": "clicks", "clickstream-archive": "clicks", "reports": "clicks",
}  # fmt: skip
IN_TROUBLE = {
    "audit": "OUT_OF_RANGE",
    "reports": "BLOCKED",
    "recommendations": "STALLED",
    "billing": "DEAD_LETTER",
    "mailer": "FLAPPING",
    "fraud-check": "ABANDONED",
    "clickstream-archive": "LAGGING",
}
"""What the page says of the groups of the shop; the others are OK."""
STANDS_AT = ("orders", 3, 250)
"""The order that billing can't process."""
# A verdict takes a minute by the defaults; a shop for pictures has less time.
SETTINGS = {
    "group.initial.rebalance.delay.ms": "300",
    "group.verdict.blocked.ms": "3000",
    "group.verdict.stalled.ms": "12000",
    "group.verdict.dead.letter.ms": "12000",
    "group.verdict.abandoned.ms": "10000",
    "group.verdict.lagging.ms": "6000",
}


class Sales(Feed):
    """Produces orders, payments and clicks as JSON, one of them broken."""

    def send(self, records: int, within_s: float = 20.0) -> list[str]:
        """Produce `records` records and wait until all are acknowledged."""
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
    """A broker whose HTTP side is open on `http`, the same after a start anew."""

    def __init__(self, data: Path, settings: Mapping[str, str] | None = None) -> None:
        super().__init__(data, settings, http=f"127.0.0.1:{free_port()}")

    def start(self) -> Broker:
        """As a broker's, and wait until it says that the HTTP side is open too."""
        super().start()
        until("the page is served", lambda: f"http://{self.http}" in self.tail())
        return self


def commit(
    broker: PageBroker, group: str, offset: int = 1, topic: str = "orders", partition: int = 0
) -> None:
    """A group without members that has read the records of a partition below ``offset``."""
    read = {"partition_index": partition, "committed_offset": offset, "committed_metadata": ""}
    topics = [{"name": topic, "partitions": [read]}]
    cluster = Cluster(broker.bootstrap)
    cluster.call("FindCoordinator", 0, key=group)  # the first one makes the offsets topic

    def taken() -> bool:
        reply = cluster.call("OffsetCommit", 7, group_id=group, topics=topics)
        return bool(reply["topics"][0]["partitions"][0]["error_code"] == 0)

    until(f"{group} commits", taken)


class Shop:
    """The groups by name; `members[group]` run now."""

    def __init__(self, broker: PageBroker, stack: ExitStack) -> None:
        self.broker = broker
        self.cluster = Cluster(broker.bootstrap)
        self.groups = {
            name: stack.enter_context(
                Group(
                    "confluent", broker.bootstrap, name, topics=[topic],
                    session_timeout_ms=60000 if name == "reports" else 2000,
                    stands_at=[STANDS_AT] if name == "billing" else [],
                )
            )
            for name, topic in GROUPS.items()
        }  # fmt: skip
        self.members: dict[str, list[Member]] = {name: [] for name in GROUPS}
        self._ended = threading.Event()
        committer = threading.Thread(target=self._commit)
        committer.start()
        stack.callback(committer.join)
        stack.callback(self._ended.set)

    def start(self, group: str, name: str) -> Member:
        """Start one member."""
        member = self.groups[group].start(name)
        self.members[group].append(member)
        return member

    def kill(self, group: str) -> None:
        """Kill -9 the member of ``group`` that came last."""
        self.members[group].pop().kill()

    def go_wrong(self) -> None:
        """Have the groups get into the trouble that IN_TROUBLE says; takes seconds to be judged."""
        self.members["fraud-check"].pop().leave()
        commit(self.broker, "audit", 60_000, "orders", 1)
        for _ in range(4):
            self.members["mailer"].pop().leave()
            self.start("mailer", "mailer-1")
            until("mailer is back", lambda: self.cluster.describe("mailer").sizes() == [3])
        self.members["reports"][0].pause()
        self.start("reports", "reports-2")

    def _commit(self) -> None:
        rounds = 0
        while not self._ended.wait(0.7):
            rounds += 1
            for name, members in self.members.items():
                slow = {"clickstream-archive": 14, "recommendations": 1_000_000}.get(name, 1)
                for member in list(members):
                    if member.process.poll() is None and rounds % slow == 0:
                        member.tell("commit")


@contextmanager
def shop(data: Path) -> Iterator[tuple[PageBroker, Shop]]:
    """The broker and the shop, all of it ended with the block."""
    with ExitStack() as stack:
        broker = PageBroker(data, SETTINGS)
        broker.start()
        stack.callback(broker.stop)
        cluster = Cluster(broker.bootstrap)
        for topic, partitions in TOPICS.items():
            cluster.create_topic(topic, partitions)
            feed = stack.enter_context(Sales(broker.bootstrap, topic, partitions))
            feed.flow()
        yield broker, Shop(broker, stack)
