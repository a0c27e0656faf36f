"""`muster backup` saves and restores the offsets of consumer groups (KIP-848)."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from musterd.testing import Muster
from tests.cli.running import run
from tests.waiting import until

pytestmark = pytest.mark.interop


def consumer(broker: Muster) -> Consumer:
    """Returns a member of the consumer group `billing` that owns orders:0."""
    member = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "billing",
            "group.protocol": "consumer",
            "enable.auto.commit": False,
        }
    )
    member.subscribe(["orders"])
    until("the member owns orders:0", lambda: member.poll(0.02) or member.assignment())
    return member


def test_offset_of_a_consumer_group_is_restored_after_its_members_have_left(tmp_path: Path) -> None:
    saved = str(tmp_path / "saved.json")
    with Muster() as old, Muster() as new:
        restore = ("backup", "restore", saved, "--outside-logs", "--execute", "--bootstrap")
        old.create_topic("orders")
        member = consumer(old)
        member.commit(offsets=[TopicPartition("orders", 0, 5)], asynchronous=False)
        assert run("backup", "create", saved, "--bootstrap", old.bootstrap_servers).code == 0

        member.commit(offsets=[TopicPartition("orders", 0, 9)], asynchronous=False)
        refused = run(*restore, old.bootstrap_servers)
        assert refused.code == 1
        assert "NON_EMPTY_GROUP" in refused.err
        assert old.committed("billing").offset("orders") == 9

        member.close()
        for broker in (old, new):
            assert run(*restore, broker.bootstrap_servers).code == 0
            assert broker.committed("billing").offset("orders") == 5
