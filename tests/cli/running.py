"""A command run inside the test's process: its exit code and what it printed."""

from __future__ import annotations

import contextlib
import io
import json
import sys
from typing import Any, NamedTuple

from cli.main import run_client


class Ran(NamedTuple):
    """What a command left."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """What was printed, as JSON."""
        return json.loads(self.out)


def run(*words: str, stdin: str = "") -> Ran:
    """`muster WORDS`, with nobody at a terminal."""
    out, err = io.StringIO(), io.StringIO()
    before, sys.stdin = sys.stdin, io.StringIO(stdin)
    code: str | int | None
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                code = run_client(list(words))
            except SystemExit as ended:
                code = ended.code
    finally:
        sys.stdin = before
    return Ran(int(code or 0), out.getvalue(), err.getvalue())
