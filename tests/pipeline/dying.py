"""Runs work in child processes that kill themselves with SIGKILL before a chosen change to the
disk.

A killed process cannot clean up. Each run is a forked process, so that it does not import the
modules again.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

STEPS = ("fsync", "replace", "rename", "unlink", "mkdir", "ftruncate", "pwrite")
"""Functions of the module os with which the tested code changes the disk. Each call is one step."""
DEATHS = ".deaths"
LOCK = ".run.lock"
"""The suffix of the lock file. The tested work removes the lock file in its last step. The test
kills the work before each earlier step, but not before this one."""


def everywhere(work: Callable[[str], None], root: str) -> None:
    """Tests that ``work`` can be repeated after a kill before any of its steps.

    First runs ``work(FOLDER)`` to its end in folder 0000, and counts the steps. Then, for each
    step, uses a new folder: runs the work, kills it before this step, and runs it again. For every
    fourth step, it also kills the second run, and a third run follows.
    """
    assert _run(work, root, 0, None) == 0
    steps = int((Path(root) / "0000" / DEATHS).read_text())
    for step in range(1, steps + 1):
        assert _run(work, root, step, step) == -signal.SIGKILL
        # sometimes also during the cleanup of the first kill
        again = step // 2 if step % 4 == 0 else None
        if _run(work, root, step, again) != 0:
            assert _run(work, root, step, None) == 0


def died(folder: Path) -> int:
    """Returns the number of processes that were killed while they worked in ``folder``. Each of
    them has added a word to the file DEATHS."""
    return len((folder / DEATHS).read_text().split())


def _run(work: Callable[[str], None], root: str, number: int, dies_at: int | None) -> int:
    folder = Path(root) / f"{number:04d}"
    folder.mkdir(exist_ok=True)
    child = os.fork()
    if not child:
        status = 1
        try:
            steps = _watch(folder, dies_at)
            work(str(folder))
            if not number:
                (folder / DEATHS).write_text(str(steps()))
            status = 0
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _watch(folder: Path, dies_at: int | None) -> Callable[[], int]:
    """Kills the process before step ``dies_at``. Returns a function that returns the number of
    steps so far."""
    count = 0

    def before(step: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any, **named: Any) -> Any:
            nonlocal count
            if str(args[0]).endswith(LOCK):
                return step(*args, **named)  # the work is complete when it removes the lock
            count += 1
            if count == dies_at:
                with open(folder / DEATHS, "a") as deaths:
                    deaths.write(f"{dies_at}\n")
                os.kill(os.getpid(), signal.SIGKILL)
            return step(*args, **named)

        return counted

    os.fsync = lambda _: None  # the writes of a killed process survive without fsync
    for name in STEPS:
        setattr(os, name, before(getattr(os, name)))
    return lambda: count
