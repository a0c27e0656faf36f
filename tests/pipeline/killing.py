"""Kills a job at a chosen moment."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from typing import Any

from tests.waiting import until


def killed_at(moment: Path, job: subprocess.Popen[Any], within_s: float) -> bool:
    """Kills a job's process group when the file ``moment`` exists; returns False if the job has
    ended before."""
    try:
        until(
            f"{moment} is there, or the job has ended",
            lambda: moment.exists() or job.poll() is not None,
            within_s=within_s,
        )
        return job.poll() is None
    finally:
        if job.poll() is None:
            os.killpg(job.pid, signal.SIGKILL)
        job.wait()
