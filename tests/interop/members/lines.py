"""What a group member and its test say to each other: one JSON object per line on standard output,
one word per line on standard input. Shared by the member scripts beside it."""

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
    """Tell the test one thing."""
    sys.stdout.write(json.dumps({"event": event, **fields}) + "\n")
    sys.stdout.flush()


def config() -> dict[str, Any]:
    """The member's settings, given as one JSON object on the command line."""
    read: dict[str, Any] = json.loads(sys.argv[1])
    return read


class Commands:
    """The words that the test sends; the end of standard input means `leave`."""

    def __init__(self) -> None:
        self._words: queue.SimpleQueue[str] = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in sys.stdin:
            self._words.put(line.strip())
        self._words.put("leave")

    def next(self) -> str | None:
        """The next word, or None when there is none now."""
        try:
            return self._words.get_nowait()
        except queue.Empty:
            return None


class Positions:
    """What this member has consumed and not yet committed: the next offset of each partition."""

    def __init__(self) -> None:
        self._next: dict[tuple[str, int], int] = {}

    def consumed(self, topic: str, partition: int, offset: int, value: bytes | None) -> None:
        """Remember a record and tell the test of it."""
        self._next[topic, partition] = offset + 1
        emit(
            "record",
            topic=topic,
            partition=partition,
            offset=offset,
            value=None if value is None else value.decode(),
        )

    def of(self, partitions: Any) -> dict[tuple[str, int], int]:
        """The positions in those of `partitions`, pairs of topic and partition, that have one."""
        return {key: self._next[key] for key in partitions if key in self._next}

    def all(self) -> dict[tuple[str, int], int]:
        """All positions."""
        return dict(self._next)

    def committed(self, offsets: dict[tuple[str, int], int]) -> None:
        """Tell the test that the broker acknowledged these."""
        emit("committed", offsets=[[t, p, offset] for (t, p), offset in offsets.items()])

    def forget(self, partitions: Any) -> None:
        """Partitions that are no longer this member's."""
        for key in partitions:
            self._next.pop(key, None)


def pairs(partitions: Any) -> list[list[Any]]:
    """Topic and partition of each, for a line."""
    return sorted([p.topic, p.partition] for p in partitions)
