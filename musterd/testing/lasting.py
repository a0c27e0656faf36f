"""The base class of faults, of frozen clocks, and of clocks that follow the test's clock. Each
lasts until `end` is called or its `with` block ends."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from musterd.testing.errors import MusterError


class Lasting:
    """A fault, a frozen clock of the broker, or a clock of the broker that follows the test's
    clock. It lasts until `end` is called or its `with` block ends."""

    def end(self) -> None:
        """End the fault, or let the clock run again. Do nothing if this was already done."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        where: TracebackType | None,
    ) -> None:  # fmt: skip
        try:
            self.end()
        except MusterError:
            if error is None:  # the test's own error says more
                raise
