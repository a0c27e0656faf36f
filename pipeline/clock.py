"""The clock of the pipeline: nothing else in `pipeline/` reads one, or makes ids and workers."""

from __future__ import annotations

import multiprocessing
import time
import uuid
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
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


def now_ms() -> int:
    """The wall clock, in milliseconds since 1970."""
    return round(now().timestamp() * 1000)


def processes(count: int) -> ProcessPoolExecutor:
    """Processes that begin afresh, since an engine's threads do not survive a fork."""
    return ProcessPoolExecutor(count, multiprocessing.get_context("spawn"))


def threads(count: int) -> ThreadPoolExecutor:
    """Threads that wait for an engine."""
    return ThreadPoolExecutor(count)
