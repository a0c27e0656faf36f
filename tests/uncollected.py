"""Measurements without Python's garbage collector, whose full collections come at any time.

A broker reports them apart from its pieces of work, and disables the collector while it loads.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[None]:
    """No collection begins in the block, unless the code asks for one."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
