"""The time, as the pure cores are given it."""

from __future__ import annotations

from typing import NamedTuple


class Now(NamedTuple):
    """One reading of both clocks, in milliseconds.

    ``mono_ms`` never goes back and drives whatever waits; ``wall_ms`` is what records keep.
    """

    mono_ms: int
    wall_ms: int
