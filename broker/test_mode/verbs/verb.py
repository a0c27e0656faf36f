"""A verb of /test: its row in the table, and what its function is given and returns."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from broker.test_mode.arguments import Argument

Answer = Mapping[str, Any]
"""The answer, as JSON."""


@dataclass(frozen=True, slots=True)
class Verb:
    """One row; the route, GET /test and every error are made of it."""

    method: str
    path: str
    """Below /test, such as ``/time/advance``; "/faults/{id}" takes its last part as an argument."""
    help: str
    """One line."""
    do: Callable[..., Awaitable[Answer]]
    """Gets the TestedBroker, then its arguments by name. Raises Refused."""
    arguments: tuple[Argument, ...] = ()

    @property
    def shown(self) -> str:
        """As errors name it."""
        return f"{self.method} /test{self.path}"

    def described(self) -> dict[str, Any]:
        """As GET /test shows it."""
        return {
            "method": self.method,
            "path": f"/test{self.path}",
            "help": self.help,
            "arguments": [each.described() for each in self.arguments],
        }
