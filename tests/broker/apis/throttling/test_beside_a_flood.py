"""A client within its quota feels nothing of one beyond it."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, perf_counter

from tests.broker.apis.throttling.bounded import produce_of
from tests.brokers import Broker
from tests.core_waits import CoreWaits
from tests.raw_connection import frame
from tests.wire import Wire

FOR_S = 1.5
P99_MS_MAX = 3
"""It is below 0.2 with the quota, and 6 to 20 without."""


@contextmanager
def flooding(port: int, data: bytes, connections: int = 4) -> Iterator[Callable[[], int]]:
    """Sends these bytes as fast as they are taken, and reads what comes; yields bytes sent."""
    sockets = [socket.create_connection(("127.0.0.1", port)) for _ in range(connections)]
    sent = [0] * connections

    def send(number: int) -> None:
        with contextlib.suppress(OSError):
            while True:
                sockets[number].sendall(data)
                sent[number] += len(data)

    def read(number: int) -> None:
        with contextlib.suppress(OSError):
            while sockets[number].recv(1 << 16):
                pass

    threads = [
        threading.Thread(target=work, args=(number,))
        for number in range(connections)
        for work in (send, read)
    ]
    for thread in threads:
        thread.start()
    try:
        yield lambda: sum(sent)
    finally:
        for each in sockets:
            each.shutdown(socket.SHUT_RDWR)
        for thread in threads:
            thread.join()
        for each in sockets:
            each.close()


def heartbeats_ms(broker: Broker) -> list[float]:
    """How long each heartbeat takes, shortest first; one after the other.

    What the broker and this thread waited for a core is not counted.
    """
    request = frame("Heartbeat", 3, 1, {"group_id": "g", "generation_id": 1, "member_id": "m"})
    took = []
    until = perf_counter() + FOR_S
    core_waits = CoreWaits(broker.pid)
    with Wire(broker.port, client_id="member") as wire:
        while perf_counter() < until:
            began = perf_counter() - core_waits.seconds()
            wire.socket.sendall(request)
            size = struct.unpack(">i", wire._exactly(4))[0]
            wire._exactly(size)
            took.append((perf_counter() - core_waits.seconds() - began) * 1000)
    return sorted(took)


def test_heartbeats_beside_a_flood_of_a_client_beyond_its_quota(tmp_path: Path) -> None:
    broker = Broker(tmp_path / "data").start()
    try:
        with Wire(broker.port) as wire:
            wire.call("Metadata", 9, {"topics": [{"name": "t"}]})
            wire.call("FindCoordinator", 2, {"key": "g"})
            entity = [{"entity_type": "client-id", "entity_name": "flood"}]
            ops = [
                {"key": "producer_byte_rate", "value": 100_000.0, "remove": False},
                {"key": "request_percentage", "value": 1.0, "remove": False},
            ]
            value = {"entries": [{"entity": entity, "ops": ops}], "validate_only": False}
            assert not wire.call("AlterClientQuotas", 1, value)["entries"][0]["error_code"]
        produce = produce_of(100_000, client_id="flood")
        metadata = frame("Metadata", 9, 1, {"topics": []}).replace(b"\0\3raw", b"\0\5flood")
        metadata = struct.pack(">i", len(metadata) - 4) + metadata[4:]
        for data in (struct.pack(">i", len(produce)) + produce, metadata * 100):
            with flooding(broker.port, data) as sent:
                deadline = monotonic() + 20
                while not sent():
                    assert monotonic() < deadline
                took = heartbeats_ms(broker)
            assert took[len(took) * 99 // 100] < P99_MS_MAX
    finally:
        broker.kill()
