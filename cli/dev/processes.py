"""Child processes of a command. They log to files, and are stopped when the command ends."""

from __future__ import annotations

import ctypes
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
"""The maximum number of seconds that a process may take to exit after SIGTERM."""
_SIGNAL_WHEN_PARENT_ENDS = 1  # PR_SET_PDEATHSIG of Linux, prctl(2)


class Running:
    """One child process in its own process group, so that Ctrl-C at the terminal does not
    reach it. The system sends it SIGTERM if this process ends without stopping it."""

    def __init__(
        self, name: str, command: list[str], log: Path, more: Mapping[str, str] | None = None
    ) -> None:
        self.name = name
        self.log = log
        set_option = ctypes.CDLL(None).prctl
        with log.open("ab") as file:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                env={**os.environ, **(more or {})},
                start_new_session=True,
                preexec_fn=lambda: set_option(  # noqa: PLW1509 - this process has one thread
                    _SIGNAL_WHEN_PARENT_ENDS, signal.SIGTERM
                ),
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def code(self) -> int | None:
        """The exit code, negative after a signal; None while the process runs."""
        return self._process.poll()

    def check(self) -> None:
        """Raises CommandError with the last line of the log if the process has exited."""
        if self.code is not None:
            lines = self.log.read_text(errors="replace").strip().splitlines() or [
                "the log is empty"
            ]
            raise CommandError(
                f"{self.name} exited with {self.code}: {lines[-1]:.300} ({self.log})"
            )

    def signal(self, number: int) -> None:
        if self.code is None:
            with suppress(ProcessLookupError):
                os.killpg(self.pid, number)

    def wait(self, timeout_s: float) -> None:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout_s)


@contextmanager
def ended_together(running: list[Running]) -> Iterator[None]:
    """Stops all processes when the block ends. Sends SIGTERM, and SIGKILL after a timeout or
    Ctrl-C. SIGHUP (a closed terminal) ends the block too, unless it is ignored (nohup)."""
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
