"""Each statement in tests/data/statements.toml has a test. docs/internals/proofs.md lists the
statements with their tests."""

from __future__ import annotations

import ast
import re

import pytest

from tools import make_proofs
from tools.make_proofs import TESTS, Proof

AT_LEAST = {
    "transactions": 47,
    "security": 38,
    "clusters": 32,
    "kafka": 5,
    "faults": 10,
    "pipeline": 14,
    "share": 13,
}
MENTIONS = {
    "transactions": r"\bSentence (\d+)",
    "security": r"rap[_ ](\d+)(?:_| of security)",
    "clusters": r"\b[Tt]rap (\d+)(?! of security)",
}
"""By topic of the numbered proof statements, such as security: a regular expression that finds the
number of a statement in the name or docstring of a test."""


def test_proofs_page_equals_the_generated_page() -> None:
    page = make_proofs.page(make_proofs.statements(), list(make_proofs.proofs()))
    assert make_proofs.PAGE.read_text() == page, "run make proofs"


def test_each_proof_statement_has_a_test_and_each_proves_marker_has_a_proof_statement() -> None:
    assert make_proofs.faults(make_proofs.statements(), list(make_proofs.proofs())) == []


@pytest.mark.parametrize("topic", AT_LEAST)
def test_statements_of_each_proof_topic_are_numbered_without_gaps(topic: str) -> None:
    numbers = [int(key) for key in make_proofs.statements()[topic] if key.isdigit()]
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(numbers) >= AT_LEAST[topic]


@pytest.mark.parametrize(("topic", "mention"), MENTIONS.items())
def test_docstrings_and_names_of_tests_mention_only_existing_proof_statements(
    topic: str, mention: str
) -> None:
    known = make_proofs.statements()[topic]
    mentioned = {
        number
        for file in TESTS.rglob("*.py")
        for number in re.findall(mention, file.read_text())
        if file.name != "test_proofs.py"
    }
    assert sorted(mentioned - set(known)) == []


def test_each_test_named_after_a_security_trap_has_the_pytest_mark_proves() -> None:
    marked = set(make_proofs.proofs())
    unmarked = [
        f"{file}::{test}"
        for file in TESTS.rglob("test_*.py")
        for test, number in re.findall(r"def (test_trap_(\d+)_\w+)", file.read_text())
        if Proof(f"security {number}", file.relative_to(TESTS).as_posix(), test) not in marked
    ]
    assert unmarked == []


def test_checker_of_proof_statements_reports_missing_tests_statements_and_files() -> None:
    source = """
pytestmark = [pytest.mark.proves("clusters 1")]
@pytest.mark.proves("clusters 2", "golden/absent.txt")
@pytest.mark.proves("clusters 4")
def test_x(): ...
"""
    found = list(make_proofs.in_module("conftest.py", ast.parse(source)))
    assert found == [
        Proof("clusters 1", "conftest.py", ""),
        Proof("clusters 2", "conftest.py", "test_x"),
        Proof("clusters 2", "golden/absent.txt", ""),
        Proof("clusters 4", "conftest.py", "test_x"),
    ]
    statements = {"clusters": {"title": "", "1": "", "2": "", "3": ""}}
    assert make_proofs.faults(statements, found) == [
        "no test proves clusters 3",
        "unknown statement in a mark: clusters 4",
        "file in a mark does not exist: tests/golden/absent.txt",
    ]
