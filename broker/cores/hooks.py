"""The callbacks from the runtime of cores to other parts of the broker."""

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
    """The callbacks of one runtime of cores."""

    observer: Observer | None = None
    """The observer that gets the events of each outcome; None if events are dropped."""
    before_replies: Callable[[], None] = _nothing
    after_replies: Callable[[], None] = _nothing
    """A function that is called after the replies of a turn were released. `before_replies` is
    called before their release. These two calls let the broker write only once per turn to each
    connection."""
    cleaned_to: Callable[[int], int] = _never_cleaned
    """A function that returns, for a partition of the internal topic, the offset up to which the
    log cleaner has compacted the log."""

    @contextmanager
    def replies_together(self) -> Iterator[None]:
        """Returns a context manager that calls `before_replies` at the start of the block and
        `after_replies` at its end."""
        self.before_replies()
        try:
            yield
        finally:
            self.after_replies()
