"""One place of each room reads a clock, waits, makes threads, ids and random numbers.

Whoever wants another time in a test, or the same run twice, then has one thing to replace. To
reckon with times and to write them is free; the syntax trees are read, so that a comment is too.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

ONE_PLACE = {"cli": "cli/clock.py", "pipeline": "pipeline/clock.py"}
"""Room -> its only module that may use what is listed below."""

FORBIDDEN = (
    "time",
    "sched",
    "random",
    "secrets",
    "os.urandom",
    "uuid.uuid1",
    "uuid.uuid4",
    "datetime.datetime.now",
    "datetime.datetime.utcnow",
    "datetime.datetime.today",
    "datetime.date.today",
    "threading.Thread",
    "threading.Timer",
    "concurrent.futures",
    "multiprocessing",
    "asyncio.sleep",
    "asyncio.to_thread",
)
"""A module means all that is in it."""


def uses(tree: ast.AST) -> list[str]:
    """What a module uses of the forbidden: its line and its full name, imports apart."""
    names = dict(_imported(tree))
    found = []
    for node in _without_annotations(tree):
        name = _full_name(node, names)
        if name is not None and any(f"{name}.".startswith(f"{each}.") for each in FORBIDDEN):
            found.append((getattr(node, "lineno", 0), name))
    return [f"{line}: {name}" for line, name in sorted(set(found))]


def _imported(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """A module's own names of what it imports, and the full names."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for each in node.names:
                yield (each.asname, each.name) if each.asname else (each.name.split(".")[0],) * 2
        elif isinstance(node, ast.ImportFrom) and not node.level:
            for each in node.names:
                yield each.asname or each.name, f"{node.module}.{each.name}"


def _without_annotations(tree: ast.AST) -> Iterator[ast.AST]:
    """Every node but those of types: to name a thread makes none."""
    yield tree
    for field, value in ast.iter_fields(tree):
        if field not in ("annotation", "returns"):
            for each in value if isinstance(value, list) else [value]:
                if isinstance(each, ast.AST):
                    yield from _without_annotations(each)


def _full_name(node: ast.AST, names: dict[str, str]) -> str | None:
    if isinstance(node, ast.Name):
        return names.get(node.id)
    if isinstance(node, ast.Attribute):
        before = _full_name(node.value, names)
        return None if before is None else f"{before}.{node.attr}"
    return None


@pytest.mark.parametrize("room", ONE_PLACE)
def test_only_one_module_of_a_room_reads_time_and_chance(room: str) -> None:
    found = {
        str(path.relative_to(ROOT)): used
        for path in sorted((ROOT / room).rglob("*.py"))
        if (used := uses(ast.parse(path.read_text())))
    }

    assert found.pop(ONE_PLACE[room], None), "it is the place"
    assert found == {}


@pytest.mark.parametrize(
    ("planted", "name"),
    [
        ("import time\ntime.sleep(1)", "time.sleep"),
        ("from time import monotonic as now\nnow()", "time.monotonic"),
        ("import time\nwaits = {'sleep': time.sleep}", "time.sleep"),
        ("def f():\n    from time import perf_counter as p\n    p()", "time.perf_counter"),
        ("from datetime import UTC, datetime\ndatetime.now(UTC)", "datetime.datetime.now"),
        ("import datetime as dt\ndt.date.today()", "datetime.date.today"),
        ("from random import random\nrandom()", "random.random"),
        ("import uuid\nuuid.uuid4().hex", "uuid.uuid4"),
        ("import secrets\nsecrets.token_hex()", "secrets.token_hex"),
        ("import os\nos.urandom(8)", "os.urandom"),
        ("from threading import Thread\nThread(target=print).start()", "threading.Thread"),
        ("import concurrent.futures as c\nc.ThreadPoolExecutor()", "concurrent.futures"),
        ("import asyncio\nasync def f():\n    await asyncio.sleep(1)", "asyncio.sleep"),
    ],
)  # fmt: skip
def test_a_planted_use_is_found(planted: str, name: str) -> None:
    assert any(name in use for use in uses(ast.parse(planted)))


@pytest.mark.parametrize(
    "fine",
    [
        "from cli import clock\nclock.now()\nclock.sleep(1)",
        "from datetime import UTC, datetime\ndatetime.fromtimestamp(0, UTC).isoformat()",
        "import uuid\nuuid.UUID(bytes=bytes(16))",
        "import threading\nended = threading.Event()\nthread: threading.Thread | None = None",
        "def f(now: float) -> str:\n    return 'time.sleep(1)'  # time.sleep(1)",
    ],
)
def test_to_reckon_with_times_is_free(fine: str) -> None:
    assert uses(ast.parse(fine)) == []
