"""Files and code that ARCHITECTURE.md names exist. Files and code that the "Where to change" list
of a room names exist too."""

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
LISTS = {
    path.relative_to(ROOT).as_posix(): text.partition("Where to change:")[2]
    for room in CODE
    for path in (ROOT / room).rglob("__init__.py")
    if "Where to change:" in (text := ast.get_docstring(ast.parse(path.read_text())) or "")
}
"""The list "Where to change" in the docstring of each room, by the path of the room's __init__.py.
"""
TEXT = "\n".join((PAGE, *LISTS.values()))

PLACES = sorted(set(re.findall(r"`([a-z_/]+\.py):([A-Za-z_.]+)`", PAGE)))
"""Each `file.py:function` or `file.py:Class.method` in ARCHITECTURE.md, as a pair of file and name.
"""
METHODS = sorted(set(re.findall(r"`([A-Z]\w+\.[a-z_]+)`", PAGE)))
"""Each `Class.method` in ARCHITECTURE.md that is written without its file."""
FILES = sorted(
    set(re.findall(r"`([a-z0-9_/]+\.py|[a-z0-9_]+/[a-z0-9_/]+\.(?:json|js|txt))`", TEXT))
)
DOCUMENTS = sorted(set(re.findall(r"\bdocs/[a-z/-]+\.md\b", TEXT)))
FOLDERS = sorted(set(re.findall(r"`([a-z_]+(?:/[a-z_]+)*/)`|`(tests/[a-z_/]+)`", TEXT)))


def files(name: str) -> list[Path]:
    """Returns the file with the path ``name``. If it does not exist, returns all files of rooms
    whose path ends with ``name``."""
    if (ROOT / name).is_file():
        return [ROOT / name]
    return [path for room in CODE for path in (ROOT / room).rglob(name.rpartition("/")[2])
            if path.as_posix().endswith(f"/{name}")]  # fmt: skip


@cache
def names(path: Path) -> frozenset[str]:
    """Returns the names of the classes, functions and methods in a module. A method is named
    `Class.method`."""
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


def test_architecture_page_names_functions_with_their_files() -> None:
    assert len(PLACES) > 25
    assert "broker/net/connection.py:Connection.data_received" in map(":".join, PLACES)


@pytest.mark.parametrize(("file", "name"), PLACES)
def test_each_function_named_in_architecture_exists(file: str, name: str) -> None:
    assert any(name in names(path) for path in files(file)), f"{file} has no {name}"


@pytest.mark.parametrize("method", METHODS)
def test_each_method_named_in_architecture_exists(method: str) -> None:
    modules = [path for room in CODE for path in (ROOT / room).rglob("*.py")]

    assert any(method in names(path) for path in modules), f"nothing is called {method}"


@pytest.mark.parametrize("file", FILES)
def test_each_file_named_in_architecture_exists(file: str) -> None:
    assert files(file), f"{file} does not exist"


@pytest.mark.parametrize("document", DOCUMENTS)
def test_each_document_named_in_architecture_exists(document: str) -> None:
    assert (ROOT / document).is_file()


def test_each_entry_of_a_where_to_change_list_ends_with_a_sentence_that_starts_with_then() -> None:
    assert len(LISTS) > 20
    assert "coordinator/__init__.py" in LISTS
    rows = [row for text in LISTS.values() for row in re.split(r"^- ", text, flags=re.M)[1:]]
    assert len(rows) > 60
    assert [row for row in rows if not re.search(r":\s.*\.\s+Then\s.*\.\n*$", row, re.S)] == []


@pytest.mark.parametrize("folder", [one or other for one, other in FOLDERS])
def test_each_folder_named_in_architecture_exists(folder: str) -> None:
    nested = [path for room in CODE for path in (ROOT / room).rglob(folder.rstrip("/"))]

    assert (ROOT / folder).is_dir() or any(path.is_dir() for path in nested), folder
