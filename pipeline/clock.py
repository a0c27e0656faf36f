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
    return datetime.now(UTC)


def fresh_id() -> str:
    return uuid.uuid4().hex


def monotonic_s() -> float:
    """Return the time of a monotonic clock in seconds, for timeouts."""
    return time.monotonic()


def sleep(seconds: float) -> None:
    time.sleep(seconds)


def now_ms() -> int:
    return round(now().timestamp() * 1000)


def processes(count: int) -> ProcessPoolExecutor:
    """Create a pool of spawned processes. They are not forked, because an engine's threads do not
    survive a fork."""
    return ProcessPoolExecutor(count, multiprocessing.get_context("spawn"), _begin_worker)


def end_processes() -> None:
    """Kill the processes that this process started, even if they are working."""
    for process in multiprocessing.active_children():
        process.kill()


def _begin_worker() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C, and ends the workers
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: BaseProcess) -> None:
    """End this worker process when its parent process ends. Otherwise it would wait for work
    forever."""
    parent.join()
    os._exit(1)


def threads(count: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(count)
