"""Small Produce requests that decompress to gigabytes do not delay heartbeats."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from protocol.records.batch import assemble_batch
from protocol.records.compression import GZIP
from protocol.records.varint import encode_varint
from tests.broker.topic_calls import create_topic
from tests.brokers import Broker
from tests.core_waits import CoreWaits
from tests.waiting import until
from tests.wire import Wire

pytestmark = [pytest.mark.faults, pytest.mark.proves("faults 1")]

PARTITIONS = 30
ANSWERED_WITHIN_S = 0.05
"""The maximum response time in seconds of 99 % of the heartbeats. The time in which the broker or
the member waits for a CPU core does not count."""
TRIES = 3
SESSION_MS = 60_000
"""A long session timeout, because the member sends no heartbeats while the test waits until memory
is freed."""
MIB = 1024 * 1024
MEMORY_KEPT_MIB_MAX = 20


def section(records: int, value: bytes) -> bytes:
    out = bytearray()
    for index in range(records):
        body = b"\0" + encode_varint(0) + encode_varint(index) + b"\x01"
        body += encode_varint(len(value)) + value + b"\0"
        out += encode_varint(len(body)) + body
    return bytes(out)


def zeros() -> bytes:
    """Returns 99 MiB of zeros, compressed to 100 kB."""
    records = section(99, bytes(MIB - 64))
    return bytes(assemble_batch(records, 99, 0, 1_000, 1_000, compression=GZIP))


def headers() -> bytes:
    """Returns a compressed record with forty million empty headers."""
    count = 40_000_000
    body = b"\0\0\0\x01\x01" + encode_varint(count) + b"\0\x01" * count
    record = encode_varint(len(body)) + body
    return bytes(assemble_batch(record, 1, 0, 1_000, 1_000, compression=GZIP))


class Member:
    def __init__(self, broker: Broker) -> None:
        self._core_waits = CoreWaits(broker.pid)
        self.wire = Wire(broker.port, client_id="member")
        self.wire.call("FindCoordinator", 3, {"key": "g", "key_type": 0})
        joined = until("the group is joined", self._joined)
        self.generation = {
            "group_id": "g",
            "generation_id": joined["generation_id"],
            "member_id": joined["member_id"],
        }
        self.wire.call("SyncGroup", 3, {**self.generation, "assignments": []})

    def _joined(self) -> dict[str, Any]:
        answer = self.wire.call(
            "JoinGroup",
            3,
            {
                "group_id": "g",
                "session_timeout_ms": SESSION_MS,
                "rebalance_timeout_ms": SESSION_MS,
                "member_id": "",
                "protocol_type": "consumer",
                "protocols": [{"name": "range", "metadata": b""}],
            },
        )
        return {} if answer["error_code"] else answer

    def beat_beside(self, work: Callable[[], object]) -> tuple[float, set[int]]:
        """Sends heartbeats while ``work`` runs in a thread. Returns the 99th percentile of the
        response times in seconds, and the set of error codes."""
        thread = threading.Thread(target=work)
        thread.start()
        took_s, codes = [], set()
        while thread.is_alive():
            began = time.perf_counter() - self._core_waits.seconds()
            codes.add(self.wire.call("Heartbeat", 3, self.generation)["error_code"])
            took_s.append(time.perf_counter() - self._core_waits.seconds() - began)
            thread.join(0.01)
        return sorted(took_s)[len(took_s) * 99 // 100], codes


def memory_mib(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) // 1024


@pytest.mark.parametrize("bomb", [zeros, headers], ids=["zeros", "headers"])
def test_heartbeats_are_not_delayed_by_records_that_decompress_to_3_gb(
    tmp_path: Path, bomb: Callable[[], bytes]
) -> None:
    records = bomb()
    partitions = [{"index": index, "records": records} for index in range(PARTITIONS)]
    request = {
        "transactional_id": None,
        "acks": -1,
        "timeout_ms": 30_000,
        "topic_data": [{"name": "orders", "partition_data": partitions}],
    }
    broker = Broker(tmp_path)
    broker.start()
    try:
        with Wire(broker.port) as wire:
            create_topic(wire, "orders", PARTITIONS)
            member = Member(broker)
            before = memory_mib(broker.pid)
            waits = []
            for attempt in range(TRIES):
                waited, codes = member.beat_beside(lambda: wire.call("Produce", 9, request))
                assert codes == {0}
                waits.append(waited)
                if not attempt:
                    until(
                        "the memory is given back",
                        lambda: memory_mib(broker.pid) < before + MEMORY_KEPT_MIB_MAX,
                    )
            assert min(waits) < ANSWERED_WITHIN_S, waits
            member.wire.close()
    finally:
        broker.stop()
