"""The calls of the runtime to other parts."""

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
    """See the module."""

    observer: Observer | None = None
    """Gets the events of each outcome; None: they are dropped."""
    before_replies: Callable[[], None] = _nothing
    after_replies: Callable[[], None] = _nothing
    """Around the replies of a turn, so that each connection writes once."""
    cleaned_to: Callable[[int], int] = _never_cleaned
    """From a partition to the offset below which the cleaner has been at its log."""

    @contextmanager
    def replies_together(self) -> Iterator[None]:
        """Each connection writes once what it gets within."""
        self.before_replies()
        try:
            yield
        finally:
            self.after_replies()
