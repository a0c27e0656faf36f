"""Files that tests download once: jars of Kafka, and scripts for the browser.

The files are stored in `~/.cache/muster-tests` or MUSTER_TEST_CACHE. The name of the folder
contains a digest of the description of the files. A changed description therefore creates a new
folder.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path


def cache_folder() -> Path:
    """Returns the folder of downloaded files, which remains after a test run."""
    named = os.environ.get("MUSTER_TEST_CACHE")
    return Path(named) if named else Path.home() / ".cache" / "muster-tests"


def cached(name: str, description: Path, bring: Callable[[Path], None]) -> Path:
    """Returns a folder of downloaded files. ``bring`` fills the folder if it does not exist.
    ``description`` is a file, or a folder of files; the folder's name contains a hash of their
    contents."""
    files = sorted(description.iterdir()) if description.is_dir() else [description]
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:8]
    folder = cache_folder() / f"{name}-{digest}"
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with open(folder.parent / ".lock", "w") as lock:  # one download for all test processes
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not folder.is_dir():
                partial = folder.with_name(folder.name + ".partial")
                shutil.rmtree(partial, ignore_errors=True)
                bring(partial)
                partial.rename(folder)
    return folder
