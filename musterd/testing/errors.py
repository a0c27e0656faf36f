"""What goes wrong with a broker in a test: one sentence each, with what the broker said."""

from __future__ import annotations

from collections.abc import Sequence

_SHOWN_LINES = 30


class MusterError(Exception):
    """The broker can't do what was asked; the message says what, and what to do instead."""


class Refused(MusterError):
    """The broker's own refusal: no such thing (404), a wrong argument (400), not possible (409)."""

    def __init__(self, status: int, sentence: str) -> None:
        self.status = status
        super().__init__(sentence)


class BrokerDied(MusterError):
    """The broker's process did not start, or has ended; `lines` are the last that it wrote."""

    def __init__(self, sentence: str, lines: Sequence[str]) -> None:
        self.lines = list(lines)
        """The last lines of the broker's log, the newest last."""
        shown = self.lines[-_SHOWN_LINES:]
        said = "; its last lines:\n    " + "\n    ".join(shown) if shown else "; it said nothing"
        super().__init__(sentence + said)


class WaitedInVain(MusterError, AssertionError):
    """What a test waited for did not come in time; the message says what was there instead."""
