"""What lasts until it is ended: by the end of a `with` block, or by `end`."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from musterd.testing.errors import MusterError


class Lasting:
    """A fault, or a clock that is held."""

    def end(self) -> None:
        """End it; once it has ended this does nothing."""
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
            if error is None:  # what the test itself met says more
                raise
