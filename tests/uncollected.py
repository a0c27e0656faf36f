"""Measuring without Python's garbage collector, whose full searches come at any time.

A broker counts them apart from its pieces of work, and does without while it loads.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[None]:
    """No collection begins within it, unless somebody asks for one."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
