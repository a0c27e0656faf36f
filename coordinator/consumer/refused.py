"""The result of a rejected heartbeat."""

from __future__ import annotations

from typing import NamedTuple


class Refused(NamedTuple):
    """The error code of a rejected heartbeat, and the error message of its response."""

    error_code: int
    message: str
