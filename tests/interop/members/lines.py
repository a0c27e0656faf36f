"""The protocol between a group member and its test. The member writes one JSON object per line, and
the test writes one command per line. All member scripts of this folder share this module."""

from __future__ import annotations

import faulthandler
import json
import queue
import signal
import sys
import threading
from typing import Any

faulthandler.register(signal.SIGQUIT, all_threads=True)


def emit(event: str, **fields: Any) -> None:
    sys.stdout.write(json.dumps({"event": event, **fields}) + "\n")
    sys.stdout.flush()


def config() -> dict[str, Any]:
    """Returns the settings of the member, which are a JSON object on the command line."""
    read: dict[str, Any] = json.loads(sys.argv[1])
    return read


class Commands:
    """The commands that the test sends. The end of standard input counts as the command `leave`."""

    def __init__(self) -> None:
        self._words: queue.SimpleQueue[str] = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in sys.stdin:
            self._words.put(line.strip())
        self._words.put("leave")

    def next(self) -> str | None:
        """Returns the next command, or None if the test has sent none."""
        try:
            return self._words.get_nowait()
        except queue.Empty:
            return None


class Positions:
    """The positions of a member: for each partition, the offset after the last consumed record."""

    def __init__(self) -> None:
        self._next: dict[tuple[str, int], int] = {}

    def consumed(self, topic: str, partition: int, offset: int, value: bytes | None) -> None:
        """Stores the position after a record, and reports the record."""
        self._next[topic, partition] = offset + 1
        emit(
            "record",
            topic=topic,
            partition=partition,
            offset=offset,
            value=None if value is None else value.decode(),
        )

    def of(self, partitions: Any) -> dict[tuple[str, int], int]:
        """Returns the positions of ``partitions``, which are pairs of topic and partition
        number."""
        return {key: self._next[key] for key in partitions if key in self._next}

    def all(self) -> dict[tuple[str, int], int]:
        return dict(self._next)

    def committed(self, offsets: dict[tuple[str, int], int]) -> None:
        emit("committed", offsets=[[t, p, offset] for (t, p), offset in offsets.items()])

    def forget(self, partitions: Any) -> None:
        for key in partitions:
            self._next.pop(key, None)


def pairs(partitions: Any) -> list[list[Any]]:
    return sorted([p.topic, p.partition] for p in partitions)
