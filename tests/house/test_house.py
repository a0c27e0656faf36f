"""Rules of the project that no linter checks: lengths of modules and functions, docstrings,
packaging and documented metrics."""

from __future__ import annotations

import ast
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from musterd.rooms import ROOMS as PRIVATE

ROOT = Path(__file__).resolve().parents[2]
ROOMS = (*PRIVATE, "musterd")
MODULE_LINES = 400
FUNCTION_LINES = 60

LONGER = {
    # A table of data is easiest to read in one module.
    "broker/config/config_table.py",
    "protocol/log_records.py",
    # Back pressure needs both the incoming requests and the pending responses.
    "broker/net/connection.py",
    # Stable records, parked replies and failed writes share one state.
    "broker/topics/partition.py",
    # The roles of a replica share one state: log, parked replies and other replicas.
    "broker/topics/replicas/replica.py",
    # The operations on a log share one state.
    "log/partition_log.py",
    # The states of a shard: led, loaded, failed, loaded again, given up.
    "broker/cores/shard_lifecycle.py",
    # The arrays of offsets have one writer, for a single slot and for a whole column.
    "offsets/columns.py",
    # The composition root constructs all parts and defines the order of start and stop.
    "broker/broker.py",
}
"""Modules that may have more than 400 lines. A comment gives the reason for each."""

FUNCTIONS_LONGER: dict[str, str] = {
    "protocol/records/section.py:check_section": "one tight loop over every produced record, its"
    " varints inline: calls make it a fifth slower",
    "log/cleaner/key_reader.py:note_keys": "the same, over every record that is cleaned",
    "broker/broker.py:__init__": "each part of a broker, with what it is",
    "broker/net/connection.py:__init__": "each value of a connection, with what it is",
}
"""Functions (`file:function`) that may have more than 60 lines, each with the reason."""


def modules() -> list[Path]:
    found = [p for room in ROOMS for p in (ROOT / room).rglob("*.py")]
    return [p for p in found if "generated" not in p.parts]


def test_function_modules_returns_the_modules_of_all_rooms() -> None:
    assert len(modules()) > 100


def test_modules_have_at_most_400_lines() -> None:
    long = {
        str(path.relative_to(ROOT)): lines
        for path in modules()
        if (lines := len(path.read_text().splitlines())) > MODULE_LINES
    }

    assert {name: lines for name, lines in long.items() if name not in LONGER} == {}


def test_functions_have_at_most_60_lines() -> None:
    long = {}
    for path in modules():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or 0) - node.lineno + 1
                name = f"{path.relative_to(ROOT)}:{node.name}"
                if lines > FUNCTION_LINES and name not in FUNCTIONS_LONGER:
                    long[name] = lines

    assert long == {}


def test_every_module_has_a_docstring() -> None:
    bare = [
        str(path.relative_to(ROOT))
        for path in modules()
        if not ast.get_docstring(ast.parse(path.read_text())) and path.name != "__init__.py"
    ]

    assert bare == []


def tracked() -> list[Path]:
    try:
        listed = subprocess.run(
            ["git", "ls-files", "-co", "--exclude-standard"],
            cwd=ROOT, capture_output=True, text=True, check=True,
        ).stdout.split("\n")  # fmt: skip
    except (OSError, subprocess.CalledProcessError):
        listed = [str(p.relative_to(ROOT)) for p in ROOT.rglob("*") if ".venv" not in p.parts]
    return [ROOT / name for name in listed if name and (ROOT / name).is_file()]


@pytest.mark.parametrize(
    "pattern",
    [
        pytest.param(r"\.\./shared", id="a folder outside the project"),
        pytest.param(r"/(?:root|home)/\w", id="somebody's machine"),
        pytest.param(r"files\.pythonhosted|pypi\.org/simple|repo\d?\.maven", id="a registry host"),
    ],
)
def test_repository_files_contain_no_paths_or_registry_hosts_of_other_machines(
    pattern: str,
) -> None:
    named = []
    for path in tracked():
        if path == Path(__file__) or path.stat().st_size > 4_000_000:
            continue
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        if re.search(pattern, text):
            named.append(str(path.relative_to(ROOT)))

    assert named == []


def test_wheel_contains_every_package_below_musterd_rooms() -> None:
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]
    wheel, sdist = build["targets"]["wheel"], build["targets"]["sdist"]

    assert wheel["sources"] == {room: f"musterd/_rooms/{room}" for room in PRIVATE}
    assert set(wheel["only-include"]) == set(ROOMS)
    assert set(sdist["only-include"]) == {*ROOMS, "CHANGELOG.md"}


def test_every_metric_is_documented() -> None:
    written = set(re.findall(r"\"((?:muster|kafka)_[a-z0-9_]+)\"", "".join(
        (ROOT / "broker/metrics" / name).read_text()
        for name in (
            "cluster_series.py", "exposition.py", "labelled_series.py", "security_series.py",
        )
    )))  # fmt: skip
    documented = set(
        re.findall(
            r"`((?:muster|kafka)_[a-z0-9_]+)", (ROOT / "docs/operate/metrics.md").read_text()
        )
    )

    assert written
    assert written - documented == set()
