"""Counts bytecode instructions. The number measures work, and does not depend on the load of the
machine."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def instructions(work: Callable[[], object]) -> int:
    """Returns the number of bytecode instructions that ``work`` executes."""
    count = 0

    def traced(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        count += event == "opcode"
        return traced

    before = sys.gettrace()
    sys.settrace(traced)
    try:
        work()
    finally:
        sys.settrace(before)
    return count
