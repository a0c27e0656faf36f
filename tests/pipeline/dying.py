"""Run work in child processes that kill themselves (SIGKILL) before a chosen step.

A step is a change to the disk. Each run is a forked process, so that imports are paid once, and has
no chance to clean up.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

STEPS = ("fsync", "replace", "rename", "unlink", "mkdir", "ftruncate", "pwrite")
"""Functions of the module os with which the tested code changes the disk."""
DEATHS = ".deaths"
LOCK = ".run.lock"
"""Removed as the last step, when nothing is left to do."""


def everywhere(work: Callable[[str], None], root: str) -> None:
    """Run ``work(FOLDER)`` to its end in folder 0000; then, for each of its steps, in a new folder:
    kill it before that step, sometimes before an earlier one too, and run it again."""
    assert _run(work, root, 0, None) == 0
    steps = int((Path(root) / "0000" / DEATHS).read_text())
    for step in range(1, steps + 1):
        assert _run(work, root, step, step) == -signal.SIGKILL
        again = step // 2 if step % 4 == 0 else None  # sometimes also during the cleanup
        if _run(work, root, step, again) != 0:
            assert _run(work, root, step, None) == 0


def died(folder: Path) -> int:
    """The number of kills of the work in a folder."""
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
    """Count steps from now on, and die before one of them; returns a function that gives the
    count."""
    count = 0

    def before(step: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any, **named: Any) -> Any:
            nonlocal count
            if str(args[0]).endswith(LOCK):
                return step(*args, **named)  # by then the work is done
            count += 1
            if count == dies_at:
                with open(folder / DEATHS, "a") as deaths:
                    deaths.write(f"{dies_at}\n")
                os.kill(os.getpid(), signal.SIGKILL)
            return step(*args, **named)

        return counted

    os.fsync = lambda _: None  # a killed process's writes survive without fsync
    for name in STEPS:
        setattr(os, name, before(getattr(os, name)))
    return lambda: count
