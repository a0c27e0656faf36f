"""The clock of the pipeline: nothing else in `pipeline/` reads one, or makes ids and workers."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
import uuid
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from datetime import UTC, datetime
from multiprocessing.process import BaseProcess


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
    return ProcessPoolExecutor(count, multiprocessing.get_context("spawn"), _begin_worker)


def end_processes() -> None:
    """Kill the processes that this one started, whatever they are at."""
    for process in multiprocessing.active_children():
        process.kill()


def _begin_worker() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends them
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: BaseProcess) -> None:
    """A worker whose parent was killed would wait for work for ever."""
    parent.join()
    os._exit(1)


def threads(count: int) -> ThreadPoolExecutor:
    """Threads that wait for an engine."""
    return ThreadPoolExecutor(count)
