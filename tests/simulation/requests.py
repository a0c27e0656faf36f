"""The requests in flight and the delayed replies of a simulation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from coordinator.calls import Call
from coordinator.outcome import Reply

Client = Any
"""A simulated client, such as `Member`, `Admin` or `Transactor`."""


@dataclass
class Request:
    """A request in flight."""

    ticket: int
    client: Client
    call: Call
    sent_ms: int
    """The monotonic time in ms at which the request was sent, minus the jumps of the clock before
    this time."""


@dataclass
class Held:
    """A reply that is sent when all records below ``log_offset`` are stable."""

    log_offset: int
    request: Request
    reply: Reply
