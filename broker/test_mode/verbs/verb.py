"""`Verb`, a row in the table of the verbs of /test, and the types of the functions of verbs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from broker.test_mode.arguments import Argument

Answer = Mapping[str, Any]
"""The response of a verb, as a JSON object."""


@dataclass(frozen=True, slots=True)
class Verb:
    """One verb of /test: its route, its arguments, its function, and the text for GET /test."""

    method: str
    path: str
    """The path after /test, such as ``/time/advance``. A part in braces, as in ``/faults/{id}``, is
    an argument."""
    help: str
    do: Callable[..., Awaitable[Answer]]
    """The function of the verb. It gets the TestedBroker or TestedCluster, and the arguments by
    name. Raises Refused."""
    arguments: tuple[Argument, ...] = ()

    @property
    def shown(self) -> str:
        """Returns the method and path, which identify the verb in errors."""
        return f"{self.method} /test{self.path}"

    def described(self) -> dict[str, Any]:
        """Returns the description of the verb for the response to GET /test."""
        return {
            "method": self.method,
            "path": f"/test{self.path}",
            "help": self.help,
            "arguments": [each.described() for each in self.arguments],
        }
