"""Golden sessions, which contain commands with their expected output, in `tests/cli/golden/*.txt`.

A line that starts with `$ ` is a command. The lines after the command are its output: lines of
standard error start with `! `, and a nonzero exit code is shown as `(exit N)`. Lines that start
with `# ` are comments. `muster` runs inside the test process. Text that differs between runs is
replaced by the same number of letters: NNNNN for ports, xxxx for ids, nnnn-nn-nn for recent dates.
`FOLDER` means a folder of the test. `MUSTER_GOLDEN=write` (`make golden`) rewrites the files;
review the diff.
"""

from __future__ import annotations

import contextlib
import difflib
import os
import re
import shlex
from collections.abc import Iterable, Iterator
from datetime import date
from pathlib import Path

from cli.main import run_client
from tests.cli.running import stream, written

GOLDEN = Path(__file__).parent / "golden"
FOLDER = "."
RECENT_DAYS = 3
OF_DATA = frozenset({"2026-11-21", "2026-11-22"})
"""Dates in the test data. `steady` does not replace them, even while they are recent."""
WRITES = os.environ.get("MUSTER_GOLDEN") == "write"

_UUID = re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")
_INSTANT = re.compile(r"\b(\d{4}-\d\d-\d\d)T[0-9:.]{8,12}Z")
_PORT = re.compile(r"(?<=127\.0\.0\.1:)\d{5}\b")


def typed(line: str, stdin: str = "") -> str:
    """Runs one command. Returns its output in the format of a golden session."""
    out, err = stream(), stream()
    code: str | int | None = 0
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = "100"  # typer prints usage errors in this width
    try:
        with (
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
            _stdin(stdin),
        ):
            try:
                code = run_client(shlex.split(line)[1:])
            except SystemExit as ended:
                code = ended.code
    finally:
        os.environ.pop("COLUMNS") if before is None else os.environ.update(COLUMNS=before)
    shown = [part.rstrip() for part in written(out).decode().splitlines()]
    shown += [f"! {part.rstrip()}" for part in written(err).decode().splitlines()]
    shown += [f"(exit {code})"] if code else []
    return "".join(f"{part}\n" for part in shown)


@contextlib.contextmanager
def _stdin(text: str) -> Iterator[None]:
    import sys

    before, sys.stdin = sys.stdin, stream(text.encode())
    try:
        yield
    finally:
        sys.stdin = before


def steady(text: str, replaced: Iterable[tuple[str, str]] = ()) -> str:
    """Replaces text that differs between runs by placeholders of the same length."""
    for found, instead in replaced:
        text = text.replace(found, instead)
    text = _UUID.sub(lambda match: re.sub(r"[0-9a-f]", "x", match[0]), text)
    text = _INSTANT.sub(_steady_instant, text)
    return _PORT.sub("NNNNN", text)


def _steady_instant(match: re.Match[str]) -> str:
    """Returns a time in the output of a command. If the date is recent, replaces each digit by n,
    so that the output is the same in every run."""
    days = (date.today() - date.fromisoformat(match[1])).days
    is_fixed = match[1] in OF_DATA or abs(days) > RECENT_DAYS
    return match[0] if is_fixed else re.sub(r"\d", "n", match[0])


def play(text: str, replaced: Iterable[tuple[str, str]] = ()) -> str:
    """Runs the commands of a recorded session. Returns the session with the present output of each
    command in place of the recorded output."""
    replaced = list(replaced)
    played = []
    lines = text.splitlines()
    for line, after in zip(lines, [*lines[1:], "# "], strict=True):
        if line.startswith("$ "):
            played.append(f"{line}\n" + _run(line[2:], replaced))
        elif line.startswith("# ") or (not line and after.startswith(("$ ", "# "))):
            played.append(f"{line}\n")
    return "".join(played)


def _run(line: str, replaced: Iterable[tuple[str, str]]) -> str:
    shown = typed(line.replace("FOLDER", FOLDER))
    return steady(shown, [(FOLDER, "FOLDER"), *replaced] if FOLDER != "." else replaced)


def check(name: str, replaced: Iterable[tuple[str, str]] = (), writes: bool = WRITES) -> None:
    """Runs the session of a golden file and checks that its output equals the file. If ``writes``
    is true, rewrites the file."""
    path = GOLDEN / f"{name}.txt"
    before = path.read_text()
    after = play(before, replaced)
    if writes and after != before:
        path.write_text(after)
        return
    changed = difflib.unified_diff(before.splitlines(), after.splitlines(), "golden", "now", n=6)
    told = "\n".join(changed)
    assert not told, f"{path.name}; MUSTER_GOLDEN=write rewrites the file\n{told}"
