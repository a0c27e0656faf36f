"""The clock of the pipeline: no other module in `pipeline/` reads one or creates ids or workers."""

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
    """Seconds since an arbitrary moment, for timeouts."""
    return time.monotonic()


def sleep(seconds: float) -> None:
    """Block the thread."""
    time.sleep(seconds)


def now_ms() -> int:
    """The wall clock, in milliseconds since 1970."""
    return round(now().timestamp() * 1000)


def processes(count: int) -> ProcessPoolExecutor:
    """A pool of processes that are spawned, because an engine's threads do not survive a fork."""
    return ProcessPoolExecutor(count, multiprocessing.get_context("spawn"), _begin_worker)


def end_processes() -> None:
    """Kill the processes that this one started, whatever they are doing."""
    for process in multiprocessing.active_children():
        process.kill()


def _begin_worker() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends them
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: BaseProcess) -> None:
    """End the worker with its parent: otherwise it would wait for work for ever."""
    parent.join()
    os._exit(1)


def threads(count: int) -> ThreadPoolExecutor:
    """A pool of threads that wait for an engine."""
    return ThreadPoolExecutor(count)
