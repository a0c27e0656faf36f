"""The requests in flight and the held replies of a simulated world."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from coordinator.calls import Call
from coordinator.outcome import Reply

Client = Any
"""A simulated client: `Member`, `Admin`, `Transactor`, or a client of consumer groups."""


@dataclass
class Request:
    """One request in flight."""

    ticket: int
    client: Client
    call: Call
    sent_ms: int
    """The monotonic time at which the request was sent, in ms, minus the earlier leaps of time."""


@dataclass
class Held:
    """A reply that is released when the log is stable up to ``log_offset``."""

    log_offset: int
    request: Request
    reply: Reply
