"""How a connection is made secure: TLS, and who the client is."""

from __future__ import annotations

import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol


class Caller(Protocol):
    """A connection over which a broker can be asked."""

    address: str

    def supports(self, name: str, version: int) -> bool:
        """Whether the broker serves this version of an API."""

    def call(
        self, name: str, value: dict[str, Any], timeout_s: float | None, version: int | None
    ) -> dict[str, Any]:
        """The answer to one request."""


@dataclass(frozen=True)
class Security:
    """Settings of Kafka's clients; picklable, and no password is in its text."""

    @property
    def advice(self) -> str:
        """What to think of when a broker closes the connection."""
        return ""

    def wrap(self, plain: socket.socket, host: str, address: str) -> socket.socket:  # noqa: ARG002
        """The socket to speak through."""
        return plain

    def authenticate(self, connection: Caller, left_s: Callable[[], float]) -> None:
        """Say who we are where the broker wants to know."""


PLAINTEXT = Security()
