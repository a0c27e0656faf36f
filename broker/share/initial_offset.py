"""The first offset that a share group reads in a partition, according to
share.auto.offset.reset."""

from __future__ import annotations

import re
from typing import Final

from broker.time import Time
from broker.topics.partition import Partition

LATEST: Final = "latest"
EARLIEST: Final = "earliest"
BY_DURATION: Final = "by_duration:"
_DURATION = re.compile(
    r"([-+]?)P(?:([-+]?\d+)D)?(?:T(?=.)(?:([-+]?\d+)H)?(?:([-+]?\d+)M)?(?:([-+]?\d+)(?:[.,](\d{0,9}))?S)?)?",
    re.IGNORECASE,
)


def duration_ms(text: str) -> int | None:
    """Returns a duration in Java's form, such as ``PT1H30M`` or ``P3D``, in milliseconds; None for
    another text."""
    found = _DURATION.fullmatch(text)
    if found is None or not any(found.groups()[1:]):
        return None
    sign, days, hours, minutes, seconds, fraction = found.groups()
    total = int(days or 0) * 86_400 + int(hours or 0) * 3_600 + int(minutes or 0) * 60
    ms = (total + int(seconds or 0)) * 1_000
    part = int((fraction or "").ljust(3, "0")[:3])
    ms += -part if (seconds or "").startswith("-") else part
    return -ms if sign == "-" else ms


async def initial_offset(partition: Partition, strategy: str, time: Time) -> int:
    """Returns the offset at which a share group begins to read a partition.

    ``strategy`` is ``latest``, ``earliest``, or for example ``by_duration:PT1H``: the first record
    that is at most one hour old. The log is read in another thread. Raises CorruptLog and OSError.
    """
    end = partition.high_watermark
    if strategy == EARLIEST:
        return partition.log.log_start_offset
    if not strategy.startswith(BY_DURATION):
        return end
    since_ms = time.now().wall_ms - (duration_ms(strategy.removeprefix(BY_DURATION)) or 0)
    found = await time.in_thread(partition.log.offset_for_timestamp, since_ms, end)
    return end if found is None else found.offset
