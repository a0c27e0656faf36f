"""A heartbeat that is refused."""

from __future__ import annotations

from typing import NamedTuple


class Refused(NamedTuple):
    """The error code of a refused heartbeat, and the text that its response carries."""

    error_code: int
    message: str
