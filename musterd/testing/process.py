"""Starts and ends the broker's process. Reads its first line, which is JSON, and its last log
lines.

The broker's process ends when its standard input closes. This happens however the test's process
ends.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import site
import socket
import subprocess
import sys
import threading
import weakref
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import IO, Any, cast

import musterd
from musterd.testing import clock
from musterd.testing.errors import BrokerDied, MusterError

LOOPBACK = "127.0.0.1"
_KEPT_LINES = 1000
_LONGEST_LINE = 64 * 1024
_STOPS_WITHIN_S = 10.0
_ENDS_WITHIN_S = 1.0
_LOOKS_EACH_S = 0.005

_PASSED_ON = {
    "PYTHONHOME", "PYTHONUSERBASE", "PYTHONNOUSERSITE", "PYTHONPYCACHEPREFIX",
    "PYTHONDONTWRITEBYTECODE",
}  # fmt: skip
"""The environment variables of Python that the broker gets, because Python finds its modules with
them. Other variables of Python could prevent the start or the end of the broker, such as
PYTHONWARNINGS=error or PYTHONINSPECT."""
_NOT_PASSED_ON = ("PYTHON", "MUSTER_", "COV_CORE_", "COVERAGE_PROCESS_")
"""Prefixes of environment variables that the broker does not get. The broker's settings come only
from the test."""


class Lines:
    """The last lines of a process's output. Lines are counted from the start of the process."""

    def __init__(self) -> None:
        self._kept: deque[str] = deque(maxlen=_KEPT_LINES)
        self.count = 0

    def add(self, line: str) -> None:
        """Add a line, and drop the oldest line if there are too many."""
        self._kept.append(line)
        self.count += 1

    def since(self, count: int = 0) -> list[str]:
        """Return the stored lines after the first `count` lines."""
        kept = list(self._kept)
        return kept[max(0, len(kept) - (self.count - count)) :]


@dataclass(frozen=True)
class Ready:
    """The first line of the broker's output. The broker writes this line when it accepts
    connections."""

    bootstrap_servers: str
    http: str
    pid: int
    version: str
    data: str | None
    brokers: Sequence[Mapping[str, Any]] = ()
    """The id, the `bootstrap_servers` and the `http` address of each broker of a cluster."""


class Child:
    """One process of `muster serve --test`, from its start to its end."""

    def __init__(self, arguments: Sequence[str], start_timeout_s: float, lines: Lines) -> None:
        self.lines = lines
        self._timeout_s = start_timeout_s
        self._first_line: bytes | None = None
        self._settled = threading.Event()
        """Set when the first line has arrived, or when the output has ended without a line."""
        self._owner = os.getpid()
        self._process = _start(arguments)
        self._reader = clock.in_thread(self._read, f"musterd-{self._process.pid}")
        _CHILDREN.add(self)

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """True if the process has not ended. Always False in a process that was forked from the
        test's process."""
        return os.getpid() == self._owner and self._process.poll() is None

    def ends_soon(self) -> bool:
        """Return whether the process has ended or will end in a moment. The method waits for a
        moment, because the sockets of a process close before the process ends."""
        deadline = clock.Deadline(_ENDS_WITHIN_S)
        while self.is_running and not deadline.is_over:
            clock.pause(_LOOKS_EACH_S)
        return not self.is_running

    def ready(self) -> Ready:
        """Wait until the broker accepts connections, and return the first line of its output."""
        deadline = clock.Deadline(self._timeout_s)
        while not self._settled.wait(_LOOKS_EACH_S) and self.is_running and not deadline.is_over:
            pass
        if self._first_line is None:
            if self._settled.is_set() or not self.is_running:
                raise self.died("the broker did not start: the process ended")
            self.end()
            raise BrokerDied(
                f"the broker did not accept connections within {self._timeout_s:g} s",
                self.lines.since(),
            )
        try:
            announced = json.loads(self._first_line)
            names = [each.name for each in fields(Ready) if each.default is MISSING]
            return Ready(
                **{each: announced[each] for each in names}, brokers=announced.get("brokers", ())
            )
        except (ValueError, TypeError, KeyError):
            self.end()
            raise MusterError(
                f"the started process is not a broker for tests: it wrote {self._first_line!r}"
            ) from None

    def died(self, sentence: str) -> BrokerDied:
        """Return the error for a process that has ended, with its exit code and last lines."""
        if not self.ends_soon():
            self._end(signal.SIGKILL)
        code = self._process.returncode
        self._reader.join(_ENDS_WITHIN_S)
        how = f"by {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
        return BrokerDied(f"{sentence} {how}", self.lines.since())

    def kill(self) -> None:
        """Send SIGKILL to the process. Return when it has ended."""
        self._end(signal.SIGKILL)

    def end(self, gently: bool = False) -> None:
        """End the process with SIGKILL. If `gently`, first send SIGTERM and wait up to 10 s."""
        if gently and self.is_running:
            self._process.send_signal(signal.SIGTERM)
            deadline = clock.Deadline(_STOPS_WITHIN_S)
            while self.is_running and not deadline.is_over:
                clock.pause(_LOOKS_EACH_S)
        self._end(signal.SIGKILL)

    def _end(self, how: signal.Signals) -> None:
        if os.getpid() != self._owner:
            return
        if self._process.poll() is None:
            self._process.send_signal(how)
            self._process.wait()
        self.let_go_of_pipes()
        _CHILDREN.discard(self)

    def let_go_of_pipes(self) -> None:
        """Close this process's end of the broker's standard input. The thread that reads the
        broker's output closes the other pipes."""
        with suppress(OSError):
            _pipe(self._process.stdin).close()

    def forget(self) -> None:
        """Close all pipes to the broker's process. Called in a process that was forked from the
        test's process."""
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            with suppress(OSError):
                _pipe(pipe).close()

    def _read(self) -> None:
        """Store the lines of the process's output until its stdout and stderr have ended."""
        rests = {_pipe(self._process.stdout): b"", _pipe(self._process.stderr): b""}
        with selectors.DefaultSelector() as selector:
            for pipe in rests:
                selector.register(pipe, selectors.EVENT_READ)
            while selector.get_map():
                for key, _ in selector.select():
                    pipe = cast("IO[bytes]", key.fileobj)
                    read = os.read(pipe.fileno(), 65536)
                    *lines, rests[pipe] = (rests[pipe] + read).split(b"\n")
                    if not read or len(rests[pipe]) > _LONGEST_LINE:
                        lines, rests[pipe] = [*lines, rests[pipe]], b""
                    for line in lines:
                        self._take(line, pipe is self._process.stdout)
                    if not read:
                        selector.unregister(pipe)
                        pipe.close()
        self._settled.set()

    def _take(self, line: bytes, on_stdout: bool) -> None:
        if on_stdout and not self._settled.is_set():
            self._first_line = line or None
            self._settled.set()
        elif line:
            self.lines.add(line.decode(errors="replace"))


def hold(ports: Sequence[int]) -> list[socket.socket]:
    """Hold the ports of a killed process: connections are refused, and no other process gets the
    ports.

    The held sockets are bound but do not listen. Another socket can listen on the same port if both
    sockets set SO_REUSEADDR.
    """
    held = []
    for port in ports:
        holder = socket.socket()
        held.append(holder)
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with suppress(OSError):
            holder.bind((LOOPBACK, port))
    return held


_CHILDREN: weakref.WeakSet[Child] = weakref.WeakSet()


def _forget_in_forked_process() -> None:
    # Their standard inputs must close when our process ends, not when its last fork does.
    for child in list(_CHILDREN):
        child.forget()
    _CHILDREN.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_in_forked_process)


def _pipe(stream: IO[bytes] | None) -> IO[bytes]:
    assert stream is not None, "every stream of the process is a pipe"
    return stream


def _start(arguments: Sequence[str]) -> subprocess.Popen[bytes]:
    if not sys.executable:
        raise MusterError("can't start a broker: sys.executable is empty")
    command = [sys.executable, "-P", "-m", "musterd", "serve", "--test", "--with-stdin", *arguments]
    try:
        # A session of its own: Ctrl-C ends the test, whose fixtures still need their broker. No
        # file of the current folder can be imported by the broker.
        return subprocess.Popen(
            command, bufsize=0, env=_environment(os.environ), cwd="/", start_new_session=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
    except OSError as error:
        raise MusterError(f"can't start a broker: {sys.executable}: {error.strerror}") from error


def _environment(ours: Mapping[str, str]) -> dict[str, str]:
    """Return environment variables with which the broker's Python imports the same `musterd` as
    this process. PYTHONPATH is passed on only if this `musterd` is not installed."""
    passed = {
        name: value
        for name, value in ours.items()
        if name in _PASSED_ON or not name.startswith(_NOT_PASSED_ON)
    }
    here = str(Path(musterd.__file__).resolve().parent.parent)
    if here not in _site_folders():
        entries = filter(None, ours.get("PYTHONPATH", "").split(os.pathsep))
        passed["PYTHONPATH"] = os.pathsep.join([here, *map(os.path.abspath, entries)])
    return passed


def _site_folders() -> set[str]:
    """Return the folders in which Python searches for modules by default."""
    folders = [*getattr(site, "getsitepackages", list)(), site.getusersitepackages()]
    return {os.path.realpath(folder) for folder in folders}
