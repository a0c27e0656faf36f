"""The base class of faults and held clocks, which last until `end` is called or a `with` block
ends."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from musterd.testing.errors import MusterError


class Lasting:
    """A fault or a held clock."""

    def end(self) -> None:
        """End the fault or the held clock; do nothing if it has already ended."""
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
