"""Sets the thresholds of glibc's malloc, so that it keeps the memory of large buffers.

By default glibc returns the memory of a freed large buffer to the kernel, and the next buffer gets
pages that the kernel must map and clear again. A broker makes such buffers for each large request:
a Produce of 950 kB takes a third of the CPU time with these thresholds (bench/allocator.py).
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping

ENVIRONMENT = (
    "GLIBC_TUNABLES",
    "MALLOC_MMAP_THRESHOLD_",
    "MALLOC_TOP_PAD_",
    "MALLOC_TRIM_THRESHOLD_",
)
"""The environment variables that configure glibc's malloc. If one of them is set, this module does
nothing."""
MMAP_THRESHOLD_BYTES = 32 << 20
"""The size from which a buffer is mapped, and unmapped when it is freed. This is glibc's maximum,
and more than a follower's or a consumer's usual requests and responses need."""
TRIM_THRESHOLD_BYTES = 32 << 20
"""The number of free bytes at the end of a heap above which they are returned to the kernel. The
event loop's heap of an idle broker may keep so much, and so may the heap of each other thread.
Larger thresholds were not faster."""
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3


def keep_large_buffers(environment: Mapping[str, str] = os.environ) -> bool:
    """Sets the thresholds of this process; returns False, and changes nothing, if the C library is
    not glibc, or if the environment configures it."""
    if any(name in environment for name in ENVIRONMENT):
        return False
    try:
        libc = ctypes.CDLL(None)
        libc.gnu_get_libc_version  # noqa: B018 - other libraries have a mallopt that does nothing
        mallopt = libc.mallopt
    except (AttributeError, OSError, TypeError):
        return False
    set_both = [
        mallopt(_M_MMAP_THRESHOLD, MMAP_THRESHOLD_BYTES),
        mallopt(_M_TRIM_THRESHOLD, TRIM_THRESHOLD_BYTES),
    ]
    return all(set_both)
