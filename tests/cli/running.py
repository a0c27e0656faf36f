"""Runs commands in the test process, and returns their exit code and output."""

from __future__ import annotations

import contextlib
import io
import json
import sys
from contextvars import copy_context
from typing import Any, NamedTuple

from cli.main import run_client


class Ran(NamedTuple):
    """The exit code, standard output and standard error of a command."""

    code: int
    out: str
    err: str

    @property
    def bytes(self) -> bytes:
        return self.out.encode("utf-8", "surrogateescape")

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def stream(content: bytes = b"") -> io.TextIOWrapper:
    """Returns a text stream in memory that can replace a standard stream."""
    return io.TextIOWrapper(
        io.BytesIO(content), "utf-8", "surrogateescape", newline="\n", write_through=True
    )


def written(out: io.TextIOWrapper) -> bytes:
    buffer = out.buffer
    assert isinstance(buffer, io.BytesIO)
    return buffer.getvalue()


def run(*words: str, stdin: str | bytes = "") -> Ran:
    """Runs `muster WORDS` with standard streams that are not a terminal."""
    out, err = stream(), stream()
    given = stdin if isinstance(stdin, bytes) else stdin.encode()
    before, sys.stdin = sys.stdin, stream(given)
    code: str | int | None
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                # A new context keeps context variables of one command from the next.
                code = copy_context().run(run_client, list(words))
            except SystemExit as ended:
                code = ended.code
    finally:
        sys.stdin = before
    texts = [written(each).decode("utf-8", "surrogateescape") for each in (out, err)]
    return Ran(int(code or 0), *texts)
