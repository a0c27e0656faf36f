"""Callbacks from the runtime into other parts of the broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from broker.cores.observer import Observer
from protocol.slotted import slotted


def _nothing(*_: object) -> None:
    pass


def _never_cleaned(_: int) -> int:
    return 0


@slotted(frozen=True)
class Hooks:
    """The callbacks of one runtime."""

    observer: Observer | None = None
    """The observer of the events of each outcome; None if the events are dropped."""
    before_replies: Callable[[], None] = _nothing
    after_replies: Callable[[], None] = _nothing
    """`before_replies` and `after_replies` are called before and after the replies of a turn, so
    that each connection is written to once."""
    cleaned_to: Callable[[int], int] = _never_cleaned
    """Returns the offset below which the cleaner has compacted a partition's log."""

    @contextmanager
    def replies_together(self) -> Iterator[None]:
        """Calls `before_replies` before the block and `after_replies` after it, so that each
        connection is written to once."""
        self.before_replies()
        try:
            yield
        finally:
            self.after_replies()
