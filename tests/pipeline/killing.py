"""Kills the process of a job as soon as a chosen file exists."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from typing import Any

from tests.waiting import until


def killed_at(moment: Path, job: subprocess.Popen[Any], within_s: float) -> bool:
    """Kills the process group of ``job`` when the file ``moment`` exists. Returns False if the job
    ended earlier."""
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
