"""`Verb`, a row in the table of the verbs of /test, and the types of a verb's function."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from broker.test_mode.arguments import Argument

Answer = Mapping[str, Any]
"""The response, as JSON."""


@dataclass(frozen=True, slots=True)
class Verb:
    """One verb of /test; the route, the description in GET /test and the errors use its fields."""

    method: str
    path: str
    """The path after /test, such as ``/time/advance``; in "/faults/{id}" the last part is an
    argument."""
    help: str
    """The description, in one line."""
    do: Callable[..., Awaitable[Answer]]
    """The function of the verb, which is called with the TestedBroker and the arguments by name.
    Raises Refused."""
    arguments: tuple[Argument, ...] = ()

    @property
    def shown(self) -> str:
        """The method and path, by which errors name the verb."""
        return f"{self.method} /test{self.path}"

    def described(self) -> dict[str, Any]:
        """The description of the verb in GET /test."""
        return {
            "method": self.method,
            "path": f"/test{self.path}",
            "help": self.help,
            "arguments": [each.described() for each in self.arguments],
        }
