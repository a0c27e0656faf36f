"""What ARCHITECTURE.md names is there: every file, folder, class and function of its walks."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "ARCHITECTURE.md").read_text()
CODE = (
    "broker", "cli", "client", "controller", "coordinator", "journal", "log", "offsets",
    "pipeline", "musterd", "protocol", "replication", "security", "tools", "transactions",
    "verdicts",
)  # fmt: skip

PLACES = sorted(set(re.findall(r"`([a-z_/]+\.py):([A-Za-z_.]+)`", PAGE)))
"""`file.py:Class.method` and `file.py:function`."""
METHODS = sorted(set(re.findall(r"`([A-Z]\w+\.[a-z_]+)`", PAGE)))
"""`Class.method`, whose file stands before it."""
FILES = sorted(set(re.findall(r"`([a-z_/]+\.py)`", PAGE)))
FOLDERS = sorted(set(re.findall(r"`([a-z_]+(?:/[a-z_]+)*/)`", PAGE)))


def files(name: str) -> list[Path]:
    """The files of this path, from the top or at the end of it."""
    if (ROOT / name).is_file():
        return [ROOT / name]
    return [path for room in CODE for path in (ROOT / room).rglob(name.rpartition("/")[2])
            if path.as_posix().endswith(f"/{name}")]  # fmt: skip


@cache
def names(path: Path) -> frozenset[str]:
    """The classes and functions of a module, methods as `Class.method`."""
    found = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            found |= {
                f"{node.name}.{part.name}"
                for part in node.body
                if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef)
            }
    return frozenset(found)


def test_the_walks_are_there() -> None:
    assert len(PLACES) > 25
    assert "broker/net/connection.py:Connection.data_received" in map(":".join, PLACES)


@pytest.mark.parametrize(("file", "name"), PLACES)
def test_each_function_of_the_walks_is_in_its_file(file: str, name: str) -> None:
    assert any(name in names(path) for path in files(file)), f"{file} has no {name}"


@pytest.mark.parametrize("method", METHODS)
def test_each_method_is_that_of_a_class(method: str) -> None:
    modules = [path for room in CODE for path in (ROOT / room).rglob("*.py")]

    assert any(method in names(path) for path in modules), f"nothing is called {method}"


@pytest.mark.parametrize("file", FILES)
def test_each_file_is_there(file: str) -> None:
    assert files(file), f"there is no {file}"


@pytest.mark.parametrize("folder", FOLDERS)
def test_each_folder_is_there(folder: str) -> None:
    nested = [path for room in CODE for path in (ROOT / room).rglob(folder.rstrip("/"))]

    assert (ROOT / folder).is_dir() or any(path.is_dir() for path in nested), folder
