"""The packages of the program: which there are, where they lie, how its own process finds them.

An installed Muster has them in `musterd/_rooms`, where no environment meets them by their flat
names. In the source they are the folders beside `musterd`.
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
"""Where the packages lie."""


def add() -> None:
    """Make this process the program's own: our packages are found first, by their flat names.

    The folder that Python itself put first, the current one or the script's, is no longer looked
    into: what a stranger has there could be called as a package that the program needs.
    """
    if not sys.flags.safe_path and sys.path:
        del sys.path[0]
    sys.path.insert(0, FOLDER)
    # Something that Python imports at its start may have brought a stranger's `log` already.
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in ROOMS and not _is_ours(getattr(module, "__file__", None)):
            del sys.modules[name]


def _is_ours(file: str | None) -> bool:
    return file is not None and os.path.abspath(file).startswith(FOLDER + os.sep)
