"""Processes that a command starts and ends: each writes into a file, and none outlives it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from cli import clock
from cli.errors import TERMINATED, CommandError

STOP_S = 20.0
"""How long a process may take to end in order."""


class Running:
    """One process, in a group of its own: a Ctrl-C at the terminal is not its."""

    def __init__(
        self, name: str, command: list[str], log: Path, more: Mapping[str, str] | None = None
    ) -> None:
        self.name = name
        self.log = log
        with log.open("ab") as file:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                env={**os.environ, **(more or {})},
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def code(self) -> int | None:
        """Its exit code, negative for a signal; None while it runs."""
        return self._process.poll()

    def check(self) -> None:
        """Raise a CommandError with its last line where it has ended."""
        if self.code is not None:
            lines = self.log.read_text(errors="replace").strip().splitlines() or [
                "it logged nothing"
            ]
            raise CommandError(
                f"{self.name} exited with {self.code}: {lines[-1]:.300} ({self.log})"
            )

    def signal(self, number: int) -> None:
        """Send a signal to it and to what it started."""
        if self.code is None:
            with suppress(ProcessLookupError):
                os.killpg(self.pid, number)

    def wait(self, timeout_s: float) -> None:
        """Wait for its end, so long at most."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout_s)


@contextmanager
def ended_together(running: list[Running]) -> Iterator[None]:
    """End all at the end: in order where they do so in time, at once at another Ctrl-C.

    The end comes with a terminal that is closed, too, unless that is ignored (nohup).
    """
    before = signal.getsignal(signal.SIGHUP)
    if before is signal.SIG_DFL:
        signal.signal(signal.SIGHUP, lambda *_: sys.exit(TERMINATED))
    try:
        yield
    finally:
        try:
            left = clock.Deadline(STOP_S).left_s
            for each in running:
                each.signal(signal.SIGTERM)
            for each in running:
                each.wait(max(0.0, left()))
        finally:
            for each in running:
                each.signal(signal.SIGKILL)
                each.wait(STOP_S)
            signal.signal(signal.SIGHUP, before)
