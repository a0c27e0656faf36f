"""Errors of a broker in a test: one sentence each, with the broker's last log lines."""

from __future__ import annotations

from collections.abc import Sequence

_SHOWN_LINES = 30


class MusterError(Exception):
    """The broker can't do what the test requested. The message says what failed and what to do."""


class Refused(MusterError):
    """The broker responded with an HTTP error: 404 not found, 400 wrong argument, 409 not possible
    now."""

    def __init__(self, status: int, sentence: str) -> None:
        self.status = status
        super().__init__(sentence)


class BrokerDied(MusterError):
    """The broker's process did not start or has exited. `lines` are its last log lines."""

    def __init__(self, sentence: str, lines: Sequence[str]) -> None:
        self.lines = list(lines)
        """The last lines of the broker's log, the newest last."""
        shown = self.lines[-_SHOWN_LINES:]
        said = (
            "; the last lines of the broker's log:\n    " + "\n    ".join(shown)
            if shown
            else "; the broker logged nothing"
        )
        super().__init__(sentence + said)


class WaitedInVain(MusterError, AssertionError):
    """A condition was not met in time. The message describes the state at that time."""
