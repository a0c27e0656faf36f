"""What a job says when it cannot go on, and the exit codes that scripts can use."""

from __future__ import annotations

import os
import re
from typing import Final

REFUSED: Final = 1
USAGE: Final = 2
UNREACHABLE: Final = 3
DAMAGE_FOUND: Final = 4
GROUPS_FAIL: Final = 5
"""Exit codes, as every command of `muster` has them; 0 is fine."""


_FULL: Final = re.compile(r"No space left on device|Disk quota exceeded|File too large")
_PATH: Final = re.compile(r"""["'](/[^"']+?)\\?["']""")
"""A path in quotes, which may be escaped, as in JSON."""


def full_disk(error: BaseException) -> str | None:
    """Where a disk is full, as any library says so: ``/tmp/a (No space left on device)``.

    None for an error that has another cause.
    """
    found = _FULL.search(str(error))
    if found is None:
        return None
    path = getattr(error, "filename", None) or _PATH.search(str(error))
    place = path[1] if isinstance(path, re.Match) else path or "a disk of this machine"
    return f"{place} ({found[0]})"


def unwritable(folder: str) -> str | None:
    """Why nothing can be written into a folder that exists; None where it can."""
    if not os.path.isdir(folder):
        return f"{folder} is not a folder"
    if os.access(folder, os.W_OK | os.X_OK):
        return None
    if os.statvfs(folder).f_flag & os.ST_RDONLY:
        return f"{folder} is on a read-only file system"
    return f"permission denied: check the permissions of {folder}"


class PipelineError(Exception):
    """A sentence that says what happened, to what, and what to do; the command line prints it."""

    exit_code = REFUSED


class WrongUse(PipelineError):
    """Options that can't be understood, or not together."""

    exit_code = USAGE


class NotInstalled(PipelineError):
    """A package that is not here. ``str`` says how pip brings it."""

    def __init__(self, what: str, package: str, extra: str) -> None:
        super().__init__(f"{what} needs {package}: run pip install 'musterd[{extra}]'")
        self.what = what
        self.package = package


class Unreachable(PipelineError):
    """Nobody answers at an address."""

    exit_code = UNREACHABLE
