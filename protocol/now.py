"""The current time, which is passed to the cores."""

from __future__ import annotations

from typing import NamedTuple


class Now(NamedTuple):
    """One reading of both clocks in milliseconds. ``mono_ms`` never decreases and is for deadlines.
    ``wall_ms`` is for timestamps in records."""

    mono_ms: int
    wall_ms: int
