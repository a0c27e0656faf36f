"""Measurements without Python's garbage collector, whose full collections can start at any time.

A broker reports collections apart from its work, and disables the collector while it loads.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[None]:
    """Disables automatic garbage collection in the block."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
