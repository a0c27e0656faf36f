"""What tests bring from elsewhere once: jars of Kafka, scripts for the browser.

It is kept in a folder outside the checkout (`~/.cache/muster-tests`, or what MUSTER_TEST_CACHE
says). A set's folder has a digest of what describes it in its name, so a changed description is a
new set.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path


def cache_folder() -> Path:
    """Where it is kept between runs."""
    named = os.environ.get("MUSTER_TEST_CACHE")
    return Path(named) if named else Path.home() / ".cache" / "muster-tests"


def cached(name: str, description: Path, bring: Callable[[Path], None]) -> Path:
    """The folder of a set; when it is not there, ``bring`` fills it."""
    digest = hashlib.sha256(description.read_bytes()).hexdigest()[:8]
    folder = cache_folder() / f"{name}-{digest}"
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with open(folder.parent / ".lock", "w") as lock:  # several test processes, one download
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not folder.is_dir():
                partial = folder.with_name(folder.name + ".partial")
                shutil.rmtree(partial, ignore_errors=True)
                bring(partial)
                partial.rename(folder)
    return folder
