"""The packages of Muster: their names, their folder, and how Muster's processes import them.

An installed Muster has the packages in `musterd/_rooms`, where other programs can't import them by
their short names. In a checkout the packages are the folders next to `musterd`.
"""

from __future__ import annotations

import os
import sys

ROOMS = (
    "protocol", "verdicts", "journal", "client", "offsets", "coordinator", "share", "transactions",
    "controller", "replication", "security", "log", "broker", "cli", "pipeline",
)  # fmt: skip
_HERE = os.path.dirname(os.path.abspath(__file__))
_INSTALLED = os.path.join(_HERE, "_rooms")
FOLDER = _INSTALLED if os.path.isdir(_INSTALLED) else os.path.dirname(_HERE)
"""The folder that contains Muster's packages."""


def add() -> None:
    """Let this process import Muster's packages by their short names. Muster's packages are
    preferred to other packages of the same names.

    The first folder of Python's path, which is the current folder or the script's folder, is
    removed. Otherwise a module in that folder could be imported in place of a module that Muster
    needs.
    """
    if not sys.flags.safe_path and sys.path:
        del sys.path[0]
    sys.path.insert(0, FOLDER)
    # A module that Python imports at its start may have loaded a foreign `log` already.
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in ROOMS and not _is_ours(getattr(module, "__file__", None)):
            del sys.modules[name]


def _is_ours(file: str | None) -> bool:
    return file is not None and os.path.abspath(file).startswith(FOLDER + os.sep)
