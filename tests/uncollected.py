"""Disables Python's garbage collection during measurements, because a full collection can start at
any time.

A broker reports its garbage collections separately from its work, and disables them while it loads.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[None]:
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
