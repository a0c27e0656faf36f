"""Errors of jobs, and the exit codes that scripts can use."""

from __future__ import annotations

import os
import re
from typing import Final

REFUSED: Final = 1
USAGE: Final = 2
UNREACHABLE: Final = 3
DAMAGE_FOUND: Final = 4
GROUPS_FAIL: Final = 5
"""The exit code of the command `muster` if groups are in a state that `--fail-on` names."""


_FULL: Final = re.compile(r"No space left on device|Disk quota exceeded|File too large")
_PATH: Final = re.compile(r"""["'](/[^"']+?)\\?["']""")
"""Matches an absolute path in quotes. The quotes may be escaped, as in JSON."""


def full_disk(error: BaseException) -> str | None:
    """Return the path of the full disk and the system's message, such as ``/tmp/a (No space left on
    device)``, from an error of any library. Return None if the error has another cause."""
    found = _FULL.search(str(error))
    if found is None:
        return None
    path = getattr(error, "filename", None) or _PATH.search(str(error))
    place = path[1] if isinstance(path, re.Match) else path or "a disk of this machine"
    return f"{place} ({found[0]})"


def unwritable(folder: str) -> str | None:
    """Return the reason why a folder is not writable; None if it is writable."""
    if not os.path.isdir(folder):
        return f"{folder} is not a folder"
    if os.access(folder, os.W_OK | os.X_OK):
        return None
    if os.statvfs(folder).f_flag & os.ST_RDONLY:
        return f"{folder} is on a read-only file system"
    return f"permission denied: check the permissions of {folder}"


class PipelineError(Exception):
    """An error message for the user. It states the failure, the object that failed, and the
    remedy."""

    exit_code = REFUSED


class WrongUse(PipelineError):
    """An option is invalid, or options can't be combined."""

    exit_code = USAGE


class NotInstalled(PipelineError):
    """A package is not installed. ``str`` of this error has the pip command that installs it."""

    def __init__(self, what: str, package: str, extra: str) -> None:
        super().__init__(f"{what} needs {package}: run pip install 'musterd[{extra}]'")
        self.what = what
        self.package = package


class Unreachable(PipelineError):
    """No server answers at an address."""

    exit_code = UNREACHABLE
