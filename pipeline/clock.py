"""The clock of the pipeline: nothing else in `pipeline/` reads one, or makes an id."""

from __future__ import annotations

import time
import uuid
from datetime import UTC, datetime


def now() -> datetime:
    """The wall clock, in UTC."""
    return datetime.now(UTC)


def fresh_id() -> str:
    """A new random id."""
    return uuid.uuid4().hex


def monotonic_s() -> float:
    """Seconds since some moment: for what waits."""
    return time.monotonic()


def sleep(seconds: float) -> None:
    """Wait."""
    time.sleep(seconds)
