"""Reads offsets in ZooKeeper's consumer paths, and changes an offset only if no other client has
changed it.

Kafka's consumers of 0.8 stored an offset as decimal text at
``/consumers/GROUP/offsets/TOPIC/PARTITION``. Running consumers registered themselves below
``/consumers/GROUP/ids``. An address may end in a chroot: ``HOST:PORT,HOST:PORT/kafka``.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from kazoo.client import KazooClient
from kazoo.exceptions import (
    BadVersionError,
    KazooException,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
)
from kazoo.handlers.threading import KazooTimeoutError

from pipeline.errors import PipelineError, Unreachable
from pipeline.repairs.migrate import path_of
from pipeline.repairs.plan import Key, Position, Step

ROOT = "/consumers"
logging.getLogger("kazoo").addHandler(logging.NullHandler())  # kazoo also raises what it logs
_TOGETHER = 500
"""The maximum number of paths that are requested from ZooKeeper at once."""


class OldOffsets(NamedTuple):
    """The content of ``/consumers`` in ZooKeeper."""

    positions: dict[Key, Position]
    unreadable: list[tuple[str, str]]
    """The ZooKeeper paths whose data is not an offset, each with its data as text."""
    running: dict[str, int]
    """The number of running old consumers by group. These consumers continue to commit offsets to
    ZooKeeper."""


class ZooKeeperOffsets:
    """A connection to ZooKeeper. Its methods raise PipelineError if ZooKeeper denies access, and
    Unreachable if it does not answer."""

    def __init__(self, hosts: str, timeout_s: float) -> None:
        self.hosts = hosts
        self._client = KazooClient(hosts=hosts, timeout=timeout_s)
        try:
            self._client.start(timeout=timeout_s)
        except (KazooTimeoutError, KazooException, OSError) as error:
            self._client.close()
            raise Unreachable(
                f"can't connect to ZooKeeper at {hosts} ({error}): name another server with"
                " --zookeeper HOST:PORT"
            ) from error

    def groups(self) -> list[str]:
        with self._sentences():
            named = self._children(ROOT)
            return [group for group in named if self._children(f"{ROOT}/{group}/offsets")]

    def read(self, groups: Iterable[str]) -> OldOffsets:
        """Read the offsets and running consumers of these groups. An unknown group has no offsets
        and no consumers."""
        found = OldOffsets({}, [], {})
        with self._sentences():
            for group in groups:
                if running := len(self._children(f"{ROOT}/{group}/ids")):
                    found.running[group] = running
                self._read_paths(list(self._paths_of(group)), found)
        return found

    def read_keys(self, keys: Sequence[Key]) -> dict[Key, Position]:
        """Read the offsets of these keys. Keys that do not exist in ZooKeeper are left out."""
        found = OldOffsets({}, [], {})
        with self._sentences():
            self._read_paths([(path_of(key), key) for key in keys], found)
        if found.unreadable:
            path, text = found.unreadable[0]
            raise PipelineError(f"{path} in ZooKeeper has {text!r}, which is not an offset")
        return found.positions

    def change(self, steps: Sequence[Step]) -> Iterator[Step]:
        """Apply each step whose ``before`` is still the current offset. Yield each applied step.
        Raise PipelineError, which names the path, if another client has changed an offset or access
        is denied."""
        for each in steps:
            with self._sentences():
                if not self._change(each):
                    raise PipelineError(
                        f"{path_of(each.key)} in ZooKeeper has changed since it was read: stop the"
                        " consumers that commit there, and make a new plan"
                    )
            yield each

    def close(self) -> None:
        self._client.stop()
        self._client.close()

    def _children(self, path: str) -> list[str]:
        try:
            return sorted(self._client.get_children(path))
        except NoNodeError:
            return []

    def _paths_of(self, group: str) -> Iterator[tuple[str, Key]]:
        below = f"{ROOT}/{group}/offsets"
        for topic in self._children(below):
            for name in self._children(f"{below}/{topic}"):
                partition = int(name) if name.isdecimal() else -1
                yield f"{below}/{topic}/{name}", Key(group, topic, partition)

    def _read_paths(self, paths: Sequence[tuple[str, Key]], found: OldOffsets) -> None:
        for start in range(0, len(paths), _TOGETHER):
            part = paths[start : start + _TOGETHER]
            asked = [(path, key, self._client.get_async(path)) for path, key in part]
            for path, key, answer in asked:
                try:
                    data, _ = answer.get()
                except NoNodeError:
                    continue
                text = data.decode(errors="replace").strip()
                if text.isdecimal() and key.partition >= 0 and int(text) < 1 << 63:
                    found.positions[key] = Position(int(text))
                else:
                    found.unreadable.append((path, text))

    def _change(self, each: Step) -> bool:
        """Apply a step. Return whether it was applied."""
        path = path_of(each.key)
        try:
            if each.before is None:
                assert each.after is not None
                self._client.create(path, b"%d" % each.after.offset, makepath=True)
                return True
            data, stat = self._client.get(path)
            if data.strip() != b"%d" % each.before.offset:
                return False
            if each.after is None:
                self._client.delete(path, version=stat.version)
            else:
                self._client.set(path, b"%d" % each.after.offset, version=stat.version)
        except (NodeExistsError, NoNodeError, BadVersionError):
            return False
        return True

    @contextmanager
    def _sentences(self) -> Iterator[None]:
        try:
            yield
        except NoAuthError as error:
            raise PipelineError(
                f"ZooKeeper at {self.hosts} denies this client access to {ROOT}: check the ACLs"
            ) from error
        except (KazooTimeoutError, KazooException) as error:
            reason: Any = str(error) or type(error).__name__
            raise Unreachable(
                f"a request to ZooKeeper at {self.hosts} failed ({reason}): check the server"
            ) from error
