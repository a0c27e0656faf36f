"""Clients as child processes whose output is collected. `tests/java.py:run` is for tools that end
by themselves. The programs here run until a test ends them."""

from __future__ import annotations

import re
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, Protocol

from tests import java
from tests.brokers import CHECKOUT
from tests.waiting import Watch

ENDS_WITHIN_S = 180.0
KEPT_ERRORS = 400
"""The number of lines of standard error that are kept for the message of a failed test."""


class Program:
    """A running child process. Collects its output lines."""

    def __init__(
        self,
        name: str,
        command: list[str],
        watch: Watch | None = None,
        stdin: int = subprocess.DEVNULL,
    ) -> None:
        self.name = name
        self.watch = Watch() if watch is None else watch
        self.lines: list[str] = []
        self.errors: deque[str] = deque(maxlen=KEPT_ERRORS)
        self.process = subprocess.Popen(
            command,
            cwd=CHECKOUT,
            text=True,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self._readers = [
            threading.Thread(target=self._read, args=each, daemon=True)
            for each in (
                (self.process.stdout, self._said),
                (self.process.stderr, self.errors.append),
            )
        ]
        for reader in self._readers:
            reader.start()

    def _read(self, stream: IO[str], take: Callable[[str], None]) -> None:
        for line in stream:
            take(line.rstrip("\n"))
            self.watch.changed()
        self.watch.changed()

    def _said(self, line: str) -> None:
        self.lines.append(line)

    @property
    def runs(self) -> bool:
        return self.process.poll() is None

    def says(self, pattern: str) -> str | None:
        """Returns the first output line that matches ``pattern``, or None."""
        return next((line for line in list(self.lines) if re.search(pattern, line)), None)

    def until(self, what: str, condition: Callable[[], object], within_s: float) -> None:
        """Waits until ``condition`` is true. Fails if the program ends before."""
        self.watch.until(what, lambda: condition() or not self.runs, within_s, self.story)
        if not condition():
            self._join()
            assert condition(), f"{self.name} ended before: {what}\n{self.story()}"

    def until_says(self, pattern: str, within_s: float = ENDS_WITHIN_S) -> None:
        self.until(f"{self.name} says {pattern}", lambda: self.says(pattern), within_s)

    def ended(self, within_s: float = ENDS_WITHIN_S) -> int:
        """Waits until the program ends by itself. Returns its exit code."""
        try:
            code = self.process.wait(within_s)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGQUIT)
            self.watch.until(f"{self.name} shows where it is", self._shows_stacks, 10)
            raise AssertionError(f"{self.name} does not end\n{self.story()}") from None
        self._join()
        return code

    def _shows_stacks(self) -> bool:
        """Returns True if the program has reacted to SIGQUIT. A JVM prints the stacks of all
        threads."""
        return self.says("Full thread dump") is not None

    def stop(self, within_s: float = ENDS_WITHIN_S) -> int:
        self.process.terminate()
        return self.ended(within_s)

    def kill(self) -> None:
        """Sends SIGKILL. Returns after the process has ended and its output has been read."""
        self.process.kill()
        self.process.wait()
        self._join()

    def _join(self) -> None:
        for reader in self._readers:
            reader.join(10)

    def story(self) -> str:
        """Returns the last output lines, for the message of a failed test."""
        told = [f"-- {self.name}, exit {self.process.poll()}", *self.lines[-25:]]
        return "\n".join([*told, *list(self.errors)[-25:]])


def java_program(jars: str, main_class: str, *arguments: str) -> Program:
    return Program(main_class.rpartition(".")[2], java.command(jars, main_class, *arguments))


class Killable(Protocol):
    """The interface of a program, or of an object that can restart a program."""

    def kill(self) -> None: ...


@contextmanager
def ending(*programs: Killable) -> Iterator[None]:
    """Kills the ``programs`` that still run at the end of the block."""
    try:
        yield
    finally:
        for each in programs:
            each.kill()
