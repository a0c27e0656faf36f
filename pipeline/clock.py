"""The clock of the pipeline; no other module of `pipeline/` reads a clock, or creates ids or
workers.
"""

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
    """Return the wall-clock time in UTC."""
    return datetime.now(UTC)


def fresh_id() -> str:
    """Return a new random id."""
    return uuid.uuid4().hex


def monotonic_s() -> float:
    """Return the seconds since an arbitrary moment, for timeouts."""
    return time.monotonic()


def sleep(seconds: float) -> None:
    """Block the thread for this number of seconds."""
    time.sleep(seconds)


def now_ms() -> int:
    """Return the wall-clock time in milliseconds since 1970."""
    return round(now().timestamp() * 1000)


def processes(count: int) -> ProcessPoolExecutor:
    """Create a pool of spawned processes: an engine's threads do not survive a fork."""
    return ProcessPoolExecutor(count, multiprocessing.get_context("spawn"), _begin_worker)


def end_processes() -> None:
    """Kill the processes that this process started, even while they work."""
    for process in multiprocessing.active_children():
        process.kill()


def _begin_worker() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C, and ends the workers
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: BaseProcess) -> None:
    """End the worker when its parent ends, because the worker would otherwise wait for work without
    end."""
    parent.join()
    os._exit(1)


def threads(count: int) -> ThreadPoolExecutor:
    """Create a pool of threads that wait for an engine."""
    return ThreadPoolExecutor(count)
