"""Fetch responses that consumers do not read occupy little memory of the broker."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.broker.topic_calls import create_topic, produce
from tests.brokers import Broker
from tests.waiting import until
from tests.wire import Wire, batch, values_of

pytestmark = [pytest.mark.faults, pytest.mark.proves("faults 5")]

CONSUMERS = 40
PARTITIONS = 20
MEMORY_GROWN_MIB_MAX = 40
"""The allowed growth of the broker's memory in MiB. The consumers request 800 MiB in total."""


def memory_mib(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) // 1024


def test_unread_fetch_responses_of_forty_consumers_use_little_memory(tmp_path: Path) -> None:
    fetch = {
        "replica_id": -1,
        "max_wait_ms": 0,
        "min_bytes": 1,
        "max_bytes": 50_000_000,
        "topics": [
            {
                "topic": "orders",
                "partitions": [
                    {"partition": p, "fetch_offset": 0, "partition_max_bytes": 1_048_576}
                    for p in range(PARTITIONS)
                ],
            }
        ],
    }
    values = [os.urandom(1000) for _ in range(1000)]
    broker = Broker(tmp_path)
    broker.start()
    readers: list[Wire] = []
    try:
        with Wire(broker.port) as wire:
            create_topic(wire, "orders", PARTITIONS)
            for partition in range(PARTITIONS):
                produce(wire, "orders", batch(*values), partition=partition)
            before = memory_mib(broker.pid)

            readers += [Wire(broker.port) for _ in range(CONSUMERS)]
            for reader in readers:
                reader.send("Fetch", 4, fetch)
            for reader in readers:  # the broker has begun to send its response
                until("the answer begins", lambda reader=reader: reader.socket.recv(4, 2))  # type: ignore[misc]
            answer = wire.call("ApiVersions", 0)

            assert answer["error_code"] == 0
            until(
                "hardly any of it is in memory",
                lambda: memory_mib(broker.pid) < before + MEMORY_GROWN_MIB_MAX,
                60,
            )
            _, read = readers[0].receive()
            partitions = read["responses"][0]["partitions"]
            assert all(values_of(partition["records"]) == values for partition in partitions)
    finally:
        for reader in readers:
            reader.close()
        broker.stop()
