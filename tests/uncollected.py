"""Disables Python's garbage collection during measurements, because a full collection can start at
any time.

A broker reports garbage collections separately from its work, and disables the collector during its
load.
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
