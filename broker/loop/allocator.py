"""Sets the thresholds of glibc's malloc, so that the process keeps the memory of large buffers.

By default glibc returns the memory of a large buffer to the kernel when the buffer is freed. The
next buffer then gets pages that the kernel must map and clear again. A broker makes such buffers
for each large request. With these thresholds, a Produce request of 950 kB takes a third of the CPU
time (bench/allocator.py).
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
"""The environment variables that configure glibc's malloc. If one of them is set, the thresholds
are not changed."""
MMAP_THRESHOLD_BYTES = 32 << 20
"""The size in bytes from which malloc maps a buffer separately, and unmaps it when it is freed.

This is glibc's maximum. The usual requests and responses of followers and consumers are smaller.
"""
TRIM_THRESHOLD_BYTES = 32 << 20
"""The number of free bytes at the end of a heap above which glibc returns them to the kernel.

The event loop has one heap, and each other thread may have one. An idle broker may keep this many
bytes in each heap. Larger thresholds were not faster.
"""
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3


def keep_large_buffers(environment: Mapping[str, str] = os.environ) -> bool:
    """Sets the thresholds of malloc in this process. Returns False if they are not set: the C
    library is not glibc, or ``environment`` configures malloc."""
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
