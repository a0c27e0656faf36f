"""A command run inside the test's process: its exit code and what it printed."""

from __future__ import annotations

import contextlib
import io
import json
import sys
from contextvars import copy_context
from typing import Any, NamedTuple

from cli.main import run_client


class Ran(NamedTuple):
    """What a command left."""

    code: int
    out: str
    err: str

    @property
    def bytes(self) -> bytes:
        """What was printed, as it is."""
        return self.out.encode("utf-8", "surrogateescape")

    @property
    def json(self) -> Any:
        """What was printed, as JSON."""
        return json.loads(self.out)


def stream(content: bytes = b"") -> io.TextIOWrapper:
    """A standard stream in memory; what was written is in its ``buffer``."""
    return io.TextIOWrapper(
        io.BytesIO(content), "utf-8", "surrogateescape", newline="\n", write_through=True
    )


def written(out: io.TextIOWrapper) -> bytes:
    """What was written to a stream in memory."""
    buffer = out.buffer
    assert isinstance(buffer, io.BytesIO)
    return buffer.getvalue()


def run(*words: str, stdin: str | bytes = "") -> Ran:
    """`muster WORDS`, with nobody at a terminal."""
    out, err = stream(), stream()
    given = stdin if isinstance(stdin, bytes) else stdin.encode()
    before, sys.stdin = sys.stdin, stream(given)
    code: str | int | None
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                # In a context of its own: what a command chooses is not the next one's.
                code = copy_context().run(run_client, list(words))
            except SystemExit as ended:
                code = ended.code
    finally:
        sys.stdin = before
    texts = [written(each).decode("utf-8", "surrogateescape") for each in (out, err)]
    return Ran(int(code or 0), *texts)
