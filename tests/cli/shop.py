"""A Muster broker with topics, groups and a transaction, and the command lines `LINES`, which print
their state."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer

from cli.client import group_member
from cli.client.cluster import Cluster
from tests.brokers import Broker
from tests.cli.running import Ran, run
from tests.waiting import until

LINES = """
topics list --groups
topics describe orders --groups
topics delete orders
topics trim orders --to-end
groups list
groups describe live
groups members live billing
groups lag
groups lag billing live
groups evict live #1
groups reset billing --topic orders --to-latest
groups reset billing --topic orders:0 --shift-by -5
groups delete billing
groups watch
groups watch live
transactions list
transactions describe billing-1
transactions describe --topic orders
transactions abort --topic orders:0 --start-offset 1
offsets get billing
offsets expiring --within 30d
configs get --broker 1
configs set --topic orders retention.ms=1000 --dry-run
cluster
cluster --apis
cluster describe
top --once --every 0.05
backup show BACKUP
backup restore BACKUP
users list
users remove alice
acls add --principal User:alice --operation read --topic orders
acls list
acls remove --principal User:alice
quotas set --user alice producer_byte_rate=1024
quotas list
quotas remove --user alice producer_byte_rate
config check PROPERTIES
logs dump DATA
logs dump PARTITION
""".strip().splitlines()


RIGHTS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
"""Settings with which the broker has an authorizer. Unauthenticated clients are super users."""


class WithHttp(Broker):
    """A Muster broker with an HTTP listener."""

    def _command(self) -> list[str]:
        command = super()._command()
        command[command.index("--http") + 1] = "127.0.0.1:0"
        return command


class Shop:
    """A broker, and the method `run`, which executes commands on this broker."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        folder = broker.data.parent
        self._names = {
            "BACKUP": folder / "backup",
            "PROPERTIES": folder / "server.properties",
            "DATA": broker.data,
            "PASSWORD": folder / "password",
            "PARTITION": broker.data / "orders-0",
        }

    def run(self, line: str, *more: str) -> Ran:
        """Runs one line of `LINES`. Interrupts `groups watch` after its first output."""
        words = [str(self._names.get(word, word)) for word in line.split()]
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("MUSTER_BOOTSTRAP", self.broker.bootstrap)
            if line.startswith("groups watch"):
                patch.setattr("cli.clock.sleep", _interrupt)
            return run(*words, *more)


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


@contextmanager
def open_shop(folder: Path) -> Iterator[Shop]:
    """Starts a broker with a topic, a group that has only offsets, a group with a member, and a
    transaction."""
    broker = WithHttp(folder / "data", RIGHTS).start()
    shop = Shop(broker)
    (folder / "server.properties").write_text("log.retention.ms=1\n")
    (folder / "password").write_text("a password\n")
    try:
        shop.run("users add alice --password-file PASSWORD")
        shop.run("topics create orders lost -p 2")
        shop.run("produce orders -v x")
        shop.run("offsets set billing orders:0=0 lost:0=0 --execute")
        shop.run("backup create BACKUP")
        shop.run("topics delete lost --execute")
        producer = Producer(
            {"bootstrap.servers": broker.bootstrap, "transactional.id": "billing-1"}
        )
        producer.init_transactions(30)
        producer.begin_transaction()
        producer.produce("orders", b"x", partition=0)
        assert producer.flush(30) == 0
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(group_member, "SESSION_TIMEOUT_MS", 60_000)
            member = group_member.GroupMember(Cluster(broker.bootstrap), "live", ["orders"])
            assert until("the member owns partitions", member.join)
        yield shop
        member.leave()
        producer.abort_transaction(30)
    finally:
        broker.kill()
