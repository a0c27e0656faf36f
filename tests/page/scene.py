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
    "billing": "orders", "shipping": "orders", "fraud-check": "payments",
    "recommendations": "clicks", "clickstream-archive": "clicks",
}  # fmt: skip


class PageBroker(Broker):
    """A broker whose HTTP side is open on `http`, the same after a start anew."""

    def __init__(self, data: Path, settings: Mapping[str, str] | None = None) -> None:
        super().__init__(data, settings, http=f"127.0.0.1:{free_port()}")

    def start(self) -> Broker:
        """As a broker's, and wait until it says that the HTTP side is open too."""
        super().start()
        until("the page is served", lambda: f"http://{self.http}" in self.tail())
        return self


class Shop:
    """The groups by name; `members[group]` run now."""

    def __init__(self, broker: PageBroker, stack: ExitStack) -> None:
        self.groups = {
            name: stack.enter_context(
                Group("confluent", broker.bootstrap, name, topics=[topic], session_timeout_ms=2000)
            )
            for name, topic in GROUPS.items()
        }
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

    def _commit(self) -> None:
        rounds = 0
        while not self._ended.wait(0.7):
            rounds += 1
            for name, members in self.members.items():
                slow = {"shipping": 4, "clickstream-archive": 9}.get(name, 1)
                for member in list(members):
                    if member.process.poll() is None and rounds % slow == 0:
                        member.tell("commit")


@contextmanager
def shop(data: Path) -> Iterator[tuple[PageBroker, Shop]]:
    """The broker and the shop, all of it ended with the block."""
    with ExitStack() as stack:
        broker = PageBroker(data, {"group.initial.rebalance.delay.ms": "300"})
        broker.start()
        stack.callback(broker.stop)
        cluster = Cluster(broker.bootstrap)
        for topic, partitions in TOPICS.items():
            cluster.create_topic(topic, partitions)
            feed = stack.enter_context(Feed(broker.bootstrap, topic, partitions))
            feed.flow()
        yield broker, Shop(broker, stack)
