"""A verb of /test: its row in the table, and the types of its function."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from broker.test_mode.arguments import Argument

Answer = Mapping[str, Any]
"""The response, as JSON."""


@dataclass(frozen=True, slots=True)
class Verb:
    """One row, from which the route, the description of GET /test and errors are made."""

    method: str
    path: str
    """The path below /test, such as ``/time/advance``; in "/faults/{id}" the last part is an
    argument."""
    help: str
    """The description, one line."""
    do: Callable[..., Awaitable[Answer]]
    """The function: called with the TestedBroker and the arguments by name. Raises Refused."""
    arguments: tuple[Argument, ...] = ()

    @property
    def shown(self) -> str:
        """The verb as errors name it."""
        return f"{self.method} /test{self.path}"

    def described(self) -> dict[str, Any]:
        """The verb as GET /test describes it."""
        return {
            "method": self.method,
            "path": f"/test{self.path}",
            "help": self.help,
            "arguments": [each.described() for each in self.arguments],
        }
