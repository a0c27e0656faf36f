"""In each package, only one module uses clocks, timers, threads, processes and random numbers.

In the broker, this module is `broker/time.py`. The pure packages have no such module. A test
replaces the module to control the time, or to make two runs equal. The tests here read syntax
trees. They allow calculations with times.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

ONE_PLACE = {
    "protocol": None,
    "verdicts": None,
    "journal": None,
    "client": "client/chance.py",
    "offsets": None,
    "coordinator": None,
    "transactions": None,
    "controller": None,
    "replication": None,
    "security": None,
    # the entry point of the cleaner process
    "log": "log/cleaner/cleaner_process.py",
    "broker": "broker/time.py",
    "cli": "cli/clock.py",
    "musterd": "musterd/testing/clock.py",
    "pipeline": "pipeline/clock.py",
}
"""For each package, the only module that may use `FORBIDDEN`. None means that no module may."""

ALSO = {"broker/test_mode/clock/mock_time.py": {"self.call_later", "_real.call_later"}}
"""Modules outside `ONE_PLACE` that implement `Time`, each with the calls that it may make."""

FORBIDDEN = (
    "time",
    "sched",
    "datetime.datetime.now",
    "datetime.datetime.utcnow",
    "datetime.datetime.today",
    "datetime.date.today",
    "structlog.processors.TimeStamper",
    "os.times",
    "resource.getrusage",
    "signal.alarm",
    "signal.setitimer",
    "random",
    "secrets",
    "os.urandom",
    "os.getrandom",
    "uuid.uuid1",
    "uuid.uuid4",
    "_thread",
    "threading.Thread",
    "threading.Timer",
    "concurrent.futures",
    "multiprocessing",
    "os.fork",
    "os.posix_spawn",
    "anyio",
    "asyncio.sleep",
    "asyncio.to_thread",
    "asyncio.timeout",
    "asyncio.timeout_at",
    "asyncio.wait_for",
    "asyncio.create_subprocess_exec",
    "asyncio.create_subprocess_shell",
)
"""Functions and modules that must not be used. The name of a module includes all its functions."""

LOOPS_OWN = ("call_at", "call_later", "run_in_executor", "subprocess_exec", "subprocess_shell")
"""Methods of an event loop that must not be called, except on the variables in `TIMES`."""

TIMES = ("time", "_time", "real")
"""Names of variables whose value is a `Time`."""

WAITING = ("acquire", "as_completed", "get", "join", "result", "wait")
"""Functions and methods that must not be called with an argument ``timeout``."""


def uses(tree: ast.AST) -> list[str]:
    """Returns the forbidden uses in a module as ``LINE: FULL NAME``. Import statements do not count
    as uses."""
    names = dict(_imported(tree))
    names.update(_assigned(tree, names))
    found = set()
    for node in _without_annotations(tree):
        name = _full_name(node, names)
        if name is None or not _is_forbidden(name):
            name = _by_shape(node, names)
        if name is not None:
            found.add((getattr(node, "lineno", 0), name))
    return [f"{line}: {name}" for line, name in sorted(found)]


def _is_forbidden(name: str) -> bool:
    return any(f"{name}.".startswith(f"{each}.") for each in FORBIDDEN)


def _by_shape(node: ast.AST, names: dict[str, str]) -> str | None:
    """Returns the forbidden call or module in ``node``, such as ``loop.time``; otherwise None.
    Finds only the uses that can be recognized without the import statements."""
    if isinstance(node, ast.Attribute):
        owner = _last_name(node.value)
        if node.attr in LOOPS_OWN and owner not in TIMES:
            return f"{owner}.{node.attr}"
        if node.attr == "time" and owner.endswith("loop"):
            return f"{owner}.time"
    if isinstance(node, ast.Call):
        called = _last_name(node.func)
        if called in WAITING and any(each.arg == "timeout" for each in node.keywords):
            return f"{called}(timeout=)"
        if called in ("__import__", "import_module") and node.args:
            module = node.args[0]
            if isinstance(module, ast.Constant) and _is_forbidden(str(module.value)):
                return str(module.value)
    return None


def _last_name(node: ast.AST) -> str:
    if isinstance(node, ast.Call):
        return _last_name(node.func)
    return getattr(node, "attr", getattr(node, "id", ""))


def _imported(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Yields the local name and the full name of each import in a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for each in node.names:
                yield (each.asname, each.name) if each.asname else (each.name.split(".")[0],) * 2
        elif isinstance(node, ast.ImportFrom) and not node.level:
            for each in node.names:
                yield each.asname or each.name, f"{node.module}.{each.name}"


def _assigned(tree: ast.AST, names: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Yields each variable to which an imported name is assigned, and the full name of the
    import."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and (full := _full_name(node.value, names)) is not None:
            for target in node.targets:
                if isinstance(target, ast.Name):
                    yield target.id, full


def _without_annotations(tree: ast.AST) -> Iterator[ast.AST]:
    """Yields all nodes outside of type annotations."""
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


@pytest.mark.parametrize("package", ONE_PLACE)
def test_only_one_module_per_package_uses_clocks_and_random_numbers(package: str) -> None:
    places, place = set(), ONE_PLACE[package]
    elsewhere = []
    for path in sorted((ROOT / package).rglob("*.py")):
        name = str(path.relative_to(ROOT))
        for use in uses(ast.parse(path.read_text())):
            if use.partition(": ")[2] in ALSO.get(name, ()):
                continue
            places.add(name)
            if name != place:
                elsewhere.append(f"{name}:{use}")

    assert elsewhere == []
    assert places == ({place} if place else set()), "the listed module uses these functions"


@pytest.mark.parametrize("name", ALSO)
def test_list_of_permitted_clock_calls_contains_only_calls_in_the_code(name: str) -> None:
    found = {use.partition(": ")[2] for use in uses(ast.parse((ROOT / name).read_text()))}
    assert found == ALSO[name]


@pytest.mark.planted("one place for time")
@pytest.mark.parametrize(
    ("planted", "name"),
    [
        ("import time\ntime.sleep(1)", "time.sleep"),
        ("from time import monotonic as now\nnow()", "time.monotonic"),
        ("import time\nwaits = {'sleep': time.sleep}", "time.sleep"),
        ("def f():\n    from time import perf_counter as p\n    p()", "time.perf_counter"),
        ("import time as t\nclock = t\nclock.time_ns()", "time.time_ns"),
        ("from time import process_time\nprocess_time()", "time.process_time"),
        ("from importlib import import_module\nimport_module('time').time()", "time"),
        ("from datetime import UTC, datetime\ndatetime.now(UTC)", "datetime.datetime.now"),
        ("import datetime as dt\ndt.date.today()", "datetime.date.today"),
        ("import structlog\nstructlog.processors.TimeStamper()", "TimeStamper"),
        ("import resource\nresource.getrusage(0)", "resource.getrusage"),
        ("from random import random\nrandom()", "random.random"),
        ("from random import Random\nRandom(1)", "random.Random"),
        ("import uuid\nuuid.uuid4().hex", "uuid.uuid4"),
        ("import secrets\nsecrets.token_hex()", "secrets.token_hex"),
        ("import os\nos.urandom(8)", "os.urandom"),
        ("from threading import Thread\nThread(target=print).start()", "threading.Thread"),
        ("import concurrent.futures as c\nc.ThreadPoolExecutor()", "concurrent.futures"),
        ("import asyncio\nasync def f():\n    await asyncio.sleep(1)", "asyncio.sleep"),
        ("import asyncio as a\nasync def f():\n    await a.sleep(1)", "asyncio.sleep"),
        ("import asyncio\na = asyncio\na.to_thread(print)", "asyncio.to_thread"),
        ("from asyncio import wait_for as w\nw(f(), 1)", "asyncio.wait_for"),
        ("import asyncio\nasyncio.timeout(1)", "asyncio.timeout"),
        ("import asyncio\nasyncio.wait(tasks, timeout=1)", "wait(timeout=)"),
        ("changed.wait(timeout=1)", "wait(timeout=)"),
        ("import asyncio\nasyncio.create_subprocess_exec('x')", "asyncio.create_subprocess_exec"),
        ("import asyncio\nasyncio.get_running_loop().call_later(1, print)", "call_later"),
        ("later = self._loop.call_at", "_loop.call_at"),
        ("loop.run_in_executor(None, print)", "loop.run_in_executor"),
        ("import asyncio\nasyncio.get_running_loop().time()", "get_running_loop.time"),
        ("def f(self):\n    return self.loop.time()", "loop.time"),
    ],
)  # fmt: skip
def test_planted_use_of_a_clock_is_detected(planted: str, name: str) -> None:
    assert any(name in use for use in uses(ast.parse(planted)))


@pytest.mark.parametrize(
    "fine",
    [
        "from cli import clock\nclock.now()\nclock.sleep(1)",
        "from datetime import UTC, datetime\ndatetime.fromtimestamp(0, UTC).isoformat()",
        "import uuid\nuuid.UUID(bytes=bytes(16))",
        "import threading\nended = threading.Event()\nthread: threading.Thread | None = None",
        "def f(now: float) -> str:\n    return 'time.sleep(1)'  # time.sleep(1)",
        "from broker.time import Time\ndef f(time: Time) -> None:\n    time.call_later(1, print)",
        "class A:\n    def f(self):\n        self._time.call_later(1, print)\n        self.time()",
        "class A:\n    def f(self):\n        self._time.real.call_later(1, print)",
        "import asyncio\nasyncio.get_running_loop().call_soon(print)\nasyncio.wait(tasks)",
    ],
)
def test_code_that_reads_no_clock_is_allowed(fine: str) -> None:
    assert uses(ast.parse(fine)) == []
