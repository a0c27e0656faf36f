"""A broker keeps its addresses after a stop, a kill, a restart or a reset."""

from __future__ import annotations

import os
import signal
import socket
from datetime import timedelta
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from musterd.testing import BrokerDied, Muster, MusterError
from tests.musterd.testing.clients import consumed, produce


def topics(broker: Muster) -> list[str]:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    found = admin.list_topics(timeout=30).topics
    return sorted(name for name in found if not name.startswith("__"))


def refuses(broker: Muster) -> bool:
    host, port = broker.bootstrap_servers.split(":")
    try:
        socket.create_connection((host, int(port))).close()
    except ConnectionRefusedError:
        return True
    return False


def test_reset_empties_the_broker_and_keeps_its_addresses(muster: Muster) -> None:
    where = muster.bootstrap_servers, muster.http, muster.pid
    produce(muster, "orders", "one")

    muster.reset()

    assert topics(muster) == []
    assert where == (muster.bootstrap_servers, muster.http, muster.pid)


def test_topics_are_created_with_settings_and_deleted(muster: Muster) -> None:
    muster.create_topic("orders", partitions=3, retention_ms=60000)
    muster.create_topics("one", "two", configs={"cleanup.policy": "compact"})

    assert topics(muster) == ["one", "orders", "two"]
    muster.delete("one", "two")
    assert topics(muster) == ["orders"]
    with pytest.raises(MusterError, match=r"can't create 'orders'"):
        muster.create_topic("orders")
    with pytest.raises(MusterError, match="topic 'three' does not exist"):
        muster.delete("three")


def test_topic_without_a_number_of_partitions_gets_num_partitions() -> None:
    with Muster(settings={"num.partitions": 3}) as broker:
        broker.create_topic("orders")
        broker.create_topics("payments")
        broker.create_topic("invoices", partitions=1)

        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        found = admin.list_topics(timeout=30).topics
        counts = {name: len(each.partitions) for name, each in found.items()}
        assert counts == {"orders": 3, "payments": 3, "invoices": 1}


@pytest.mark.parametrize("end", ["stop", "kill"])
@pytest.mark.parametrize("where", ["memory", "directory"])
def test_stopped_or_killed_broker_restarts_with_its_data(
    end: str, where: str, tmp_path: Path
) -> None:
    with Muster(data=tmp_path / "data" if where == "directory" else None) as broker:
        addresses, pid = (broker.bootstrap_servers, broker.http), broker.pid
        produce(broker, "orders", "one", "two")
        getattr(broker, end)()
        assert refuses(broker)

        broker.restart()

        assert (broker.bootstrap_servers, broker.http) == addresses
        assert (broker.pid != pid) == (end == "kill" and where == "directory")
        assert consumed(broker, "orders", 2) == [b"one", b"two"]


def test_records_of_a_running_broker_are_kept_when_it_is_restarted(muster: Muster) -> None:
    produce(muster, "orders", "one")

    muster.restart()

    assert consumed(muster, "orders", 1) == [b"one"]


def test_addresses_of_a_killed_broker_stay_reserved(tmp_path: Path) -> None:
    with Muster(data=tmp_path) as broker:
        port = int(broker.bootstrap_servers.rpartition(":")[2])
        broker.kill()

        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind(("127.0.0.1", port))
        with pytest.raises(MusterError, match=r"killed: call restart\(\)"):
            broker.create_topic("orders")


@pytest.mark.campaign
def test_advanced_or_frozen_clock_is_kept_after_a_kill_and_restart(tmp_path: Path) -> None:
    with Muster(data=tmp_path) as broker:
        broker.time.advance(days=8)
        ahead = broker.time.now()
        broker.kill()
        broker.restart()
        assert timedelta() <= broker.time.now() - ahead < timedelta(seconds=30)

        broker.time.freeze()
        frozen = broker.time.now()
        broker.kill()
        broker.restart()
        assert broker.time.now() == frozen


def test_next_broker_reads_the_data_directory_of_the_previous_broker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with Muster(data="data") as broker:
        produce(broker, "orders", "one")
    monkeypatch.chdir("/")

    with Muster(data=tmp_path / "data") as broker:
        assert consumed(broker, "orders", 1) == [b"one"]


def test_data_in_memory_are_lost_when_the_process_ends() -> None:
    with Muster() as broker:
        produce(broker, "orders", "one")
        os.kill(broker.pid, signal.SIGKILL)
        with pytest.raises(BrokerDied):
            broker.restart()
        broker.close()
        broker.start()
        assert topics(broker) == []
