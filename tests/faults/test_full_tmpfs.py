"""A real full disk: a small tmpfs in a mount namespace of the broker's own.

Where a process may not make one, `tests/broker/test_broken_disks.py` shows the same on a simulated
disk.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import waiting
from tests.broker.test_broken_disks import commit, committed
from tests.broker.topic_calls import create_topic, fetch, produce
from tests.brokers import COMMAND, KIND, Broker
from tests.wire import Wire, batch, values_of

NAMESPACE = ["unshare", "--map-root-user", "--mount"]


def may_mount() -> bool:
    try:
        mounted = subprocess.run(
            [*NAMESPACE, "mount", "-t", "tmpfs", "tmpfs", "/mnt"], capture_output=True, check=False
        )
    except OSError:
        return False
    return mounted.returncode == 0


pytestmark = [
    pytest.mark.faults,
    pytest.mark.skipif(KIND != "muster" or not may_mount(), reason="needs a tmpfs of its own"),
]


def fill(path: Path) -> int:
    """Write until the disk is full; the bytes that it took."""
    taken = 0
    with path.open("wb", buffering=0) as file:
        for size in (1 << 16, 1):
            try:
                while True:
                    taken += file.write(bytes(size))
            except OSError:
                continue
    return taken


def test_appends_and_rolls_are_refused_and_go_on_when_there_is_room(
    brokers: Callable[..., Broker], tmp_path: Path
) -> None:
    data = tmp_path / "broker-0" / "data"
    mount = f'mount -t tmpfs -o size=4m tmpfs {data} && exec "$@"'
    broker = brokers(
        {"log.segment.bytes": "20000", "offsets.topic.num.partitions": "1"},
        command=[*NAMESPACE, "sh", "-c", mount, "sh", *COMMAND],
    )
    inside = Path(f"/proc/{broker.pid}/root") / data.relative_to("/")
    with Wire(broker.port) as wire:
        create_topic(wire, "t")
        wire.call("FindCoordinator", 1, {"key": "group", "key_type": 0})
        waiting.until("the group has a coordinator", lambda: commit(wire, 5) == 0)
        values = [b"%d" % number * 5000 for number in range(7)]
        for value in values:  # some segments
            assert produce(wire, "t", batch(value))["error_code"] == 0

        assert fill(inside / "ballast") > 1 << 20
        sent = 0
        while produce(wire, "t", batch(b"y" * 3000))["error_code"] == 0:
            sent += 1
            assert sent < 5, "the disk is not full"
        for offset in range(1000):
            code = commit(wire, 100 + offset)
            assert code != 0 or offset < 100, "a page may have had room left for some"
        found = values_of(fetch(wire, "t")["records"])
        assert found == values[: len(found)]
        assert found
        last = committed(wire)[1]

        (inside / "ballast").unlink()
        waiting.until("commits succeed", lambda: commit(wire, last + 1) == 0, within_s=5)
        waiting.until(
            "records are taken",
            lambda: produce(wire, "t", batch(b"z"))["error_code"] == 0,
            within_s=5,
        )
        assert committed(wire) == (0, last + 1)
    assert broker.stop() in (0, 143)
