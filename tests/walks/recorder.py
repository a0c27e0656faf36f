"""Records the functions of Muster that handle a request, in the order of their calls. Such a record
is called a walk.

A walk omits constructors, comprehensions, lambdas, generated code and background tasks. It also
omits the packages for counting (`broker/metrics`, `broker/loop`) and for simulation
(`broker/test_mode`). The remaining functions are those to read in order to follow the request
through the code.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from broker.cores.journal_keeper import JournalKeeper
from broker.cores.snapshots import Snapshots
from broker.loop.background import repeat
from broker.loop.pause_detector import PauseDetector
from tests.brokers import CHECKOUT

LEFT_OUT = ("broker/loop/", "broker/metrics/", "broker/test_mode/", "protocol/generated/")
NOT_WALKED = ("bench", "cli", "client", "musterd", "pipeline", "tests", "tools", ".venv")
CONSTRUCTORS = ("_init",)
"""The recorder omits functions with these names, as it omits ``__init__`` and similar names.
`protocol/slotted.py` defines `_init`."""
BACKGROUND = frozenset(
    [
        each.__code__
        for each in (
            repeat,
            JournalKeeper._begin,
            JournalKeeper._write_all,
            Snapshots.run,
            PauseDetector._beat,
        )
    ]
)
"""Background tasks. The recorder omits them and all functions that they call."""


@dataclass(frozen=True)
class Step:
    """A recorded call of a function. ``depth`` is the number of recorded calls that enclose this
    call."""

    depth: int
    function: str
    file: str
    """Path of the file, relative to the root of the checkout."""
    line: int


class Walk:
    """The recorded calls, in the order in which they began."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self._places: dict[CodeType, tuple[str, str, int] | None] = {}
        self._depth = 0
        self._background = 0

    @property
    def functions(self) -> int:
        return len({(step.file, step.line) for step in self.steps})

    @property
    def files(self) -> int:
        return len({step.file for step in self.steps})

    @contextmanager
    def recorded(self) -> Iterator[None]:
        """Records all calls that are made in the block."""
        sys.setprofile(self._profile)
        try:
            yield
        finally:
            sys.setprofile(None)

    def page(self) -> str:
        """Returns one line per call: file, line number and function. The function is indented by
        its depth."""
        wide = max(len(f"{step.file}:{step.line}") for step in self.steps)
        lines: list[str] = []
        for step in self.steps:
            place = f"{step.file}:{step.line}"
            line = f"{place:{wide}}  {'  ' * step.depth}{step.function}"
            if not lines or lines[-1] != line:
                lines.append(line)
        return "\n".join(lines)

    def _profile(self, frame: FrameType, event: str, _: Any) -> None:
        if event not in ("call", "return"):
            return
        code, one = frame.f_code, 1 if event == "call" else -1
        if code in BACKGROUND:
            self._background += one
        if self._background:
            return
        if code not in self._places:
            self._places[code] = _place(code)
        place = self._places[code]
        if place is None:
            return
        if event == "call":
            self.steps.append(Step(self._depth, *place))
        self._depth = max(0, self._depth + one)


def _place(code: CodeType) -> tuple[str, str, int] | None:
    """Returns function name, file and line number of ``code``, or None if the recorder omits this
    function."""
    if not Path(code.co_filename).is_relative_to(CHECKOUT):
        return None
    file = str(Path(code.co_filename).relative_to(CHECKOUT))
    name = code.co_name
    left_out = name.startswith(("__", "<")) or name in CONSTRUCTORS or file.startswith(LEFT_OUT)
    if left_out or file.partition("/")[0] in NOT_WALKED:
        return None
    return code.co_qualname.replace("<locals>.", ""), file, code.co_firstlineno
