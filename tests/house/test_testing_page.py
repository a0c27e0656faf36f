"""Each row of the tables of docs/internals/testing.md names at least one test that exists."""

from __future__ import annotations

import re

import pytest

from tests.brokers import CHECKOUT

PAGE = (CHECKOUT / "docs" / "internals" / "testing.md").read_text()
NAMED = re.compile(r"`([a-z0-9_/]+\.(?:py|txt))(?:::(test_\w+))?`")
TABLES = [
    pytest.param("The sentences of transactions", r"\bSentence (\d+)", 32, id="sentences"),
    pytest.param("The traps of security", r"rap[_ ](\d+)(?:_| of security)", 20, id="security"),
    pytest.param("The traps of clusters", r"\b[Tt]rap (\d+)(?! of security)", 28, id="traps"),
]
"""A table's section, how tests mean a row of it, and how many there are."""


def section(title: str) -> str:
    return PAGE.split(f"## {title}\n")[1].split("\n## ")[0]


@pytest.mark.parametrize(("title", "meant", "count"), TABLES)
def test_what_the_table_names_is_there(title: str, meant: str, count: int) -> None:
    named = NAMED.findall(section(title))
    assert len(named) > count
    gone = []
    for path, test in named:
        file = CHECKOUT / "tests" / path
        if not file.exists() or (test and f"def {test}(" not in file.read_text()):
            gone.append(f"{path}::{test}")
    assert gone == []


@pytest.mark.parametrize(("title", "meant", "count"), TABLES)
def test_each_row_has_a_test(title: str, meant: str, count: int) -> None:
    rows = re.findall(r"^\| (\d+) \| .+ \| (.+) \|$", section(title), re.MULTILINE)
    assert [int(number) for number, _ in rows] == list(range(1, count + 1))
    assert all(NAMED.search(tests) for _, tests in rows)


@pytest.mark.parametrize(("title", "meant", "count"), TABLES)
def test_the_rows_that_tests_mean_are_in_the_table(title: str, meant: str, count: int) -> None:
    used = set()
    for file in (CHECKOUT / "tests").rglob("*.py"):
        used |= {int(number) for number in re.findall(meant, file.read_text())}
    assert used
    assert used <= set(range(1, count + 1))


def test_each_test_that_is_called_by_a_trap_is_in_its_row() -> None:
    rows = dict(re.findall(r"^\| (\d+) \| .+ \| (.+) \|$", section("The traps of security"), re.M))
    absent = [
        name
        for file in (CHECKOUT / "tests").rglob("test_*.py")
        for name, number in re.findall(r"def (test_trap_(\d+)_\w+)", file.read_text())
        if f"{file.relative_to(CHECKOUT / 'tests')}::{name}`" not in rows[number]
    ]
    assert absent == []
