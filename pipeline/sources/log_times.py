"""Converts Kafka's times in milliseconds to Arrow timestamps. Kafka's -1, which means no time,
becomes null."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

NO_TIME: Final = -1
_TIME_MAX_MS = (1 << 63) // 1000 - 1


def times(column: NDArray[Any]) -> pa.Array:
    """Converts milliseconds to timestamps. -1 and values outside of the range of a timestamp become
    null."""
    return pa.array(column * 1000, pa.int64(), mask=~has_time(column)).cast(
        pa.timestamp("us", "UTC")
    )


def has_time(column: NDArray[Any]) -> NDArray[np.bool_]:
    """Returns a boolean for each value in ``column`` (in ms). It is True if the value is not
    NO_TIME and is in the range of the timestamps in the tables."""
    known: NDArray[np.bool_] = (
        (column != NO_TIME) & (column >= -_TIME_MAX_MS) & (column <= _TIME_MAX_MS)
    )
    return known


def time_or_none(ms: int) -> int | None:
    """Converts one time from milliseconds to microseconds. Returns None for -1 and for values
    outside of the range of a timestamp."""
    return None if ms == NO_TIME or abs(ms) > _TIME_MAX_MS else ms * 1000
