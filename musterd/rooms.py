"""The packages of the program: their names, their folder, and how its own process imports them.

An installed Muster has them in `musterd/_rooms`, where their flat names are invisible to the
environment. In a checkout they are the folders next to `musterd`.
"""

from __future__ import annotations

import os
import sys

ROOMS = (
    "protocol", "verdicts", "journal", "client", "offsets", "coordinator", "transactions",
    "controller", "replication", "security", "log", "broker", "cli", "pipeline",
)  # fmt: skip
_HERE = os.path.dirname(os.path.abspath(__file__))
_INSTALLED = os.path.join(_HERE, "_rooms")
FOLDER = _INSTALLED if os.path.isdir(_INSTALLED) else os.path.dirname(_HERE)
"""The folder of the packages."""


def add() -> None:
    """Give this process the program's packages: they are found first, by their flat names.

    Python's own first folder, the current one or the script's, is removed from the path: a foreign
    module there could be imported instead of one that the program needs.
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
