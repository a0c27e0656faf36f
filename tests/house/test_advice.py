"""The commands that Muster suggests are harmless. They delete nothing, and do not contain --execute
or --force."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.verdicts.test_judge import TABLE, judged
from verdicts.facts import GroupFacts
from verdicts.names import Verdict

CHECKOUT = Path(__file__).parents[2]
RUNBOOKS = sorted((CHECKOUT / "broker" / "web" / "runbooks").glob("*.md"))
RULES = CHECKOUT / "dashboards" / "prometheus" / "rules.yml"
PAGE = sorted((CHECKOUT / "broker" / "web" / "page").glob("*.js"))
ROOMS = (
    "broker", "cli", "controller", "coordinator", "journal", "replication", "transactions",
    "verdicts",
)  # fmt: skip

HARMS = re.compile(r"--execute|--yes|--force|\bgroups delete\b|--delete\b|\btopics delete\b")
"""Matches the options and commands that a suggested command must not contain."""
UNCLEAR = re.compile(r"behind (it|its|the record|that)\b|\banew\b|\bin vain\b|\bmend\b")
"""Matches ambiguous or avoided words. For example, "behind" an offset means before the offset in
English."""

ANSWERS = {
    "cli/groups/evict.py": "a plan that names a member by its number",
    "cli/plans.py": "a plan without a terminal",
    "cli/words.py": "a word of another tool that was typed",
}
"""The modules that may advise the user to use --execute or `groups delete`. The value says in which
situation the module does this."""


@pytest.mark.parametrize("facts", [each[1] for each in TABLE], ids=[each[0] for each in TABLE])
def test_advice_and_commands_of_findings_are_harmless(facts: GroupFacts) -> None:
    for finding in judged(facts).findings:
        assert not HARMS.search(finding.command or "")
        assert not HARMS.search(finding.advice)
        assert not UNCLEAR.search(finding.advice)


def test_rules_for_advice_are_tested_with_every_verdict_except_ok() -> None:
    found = {finding.verdict for each in TABLE for finding in judged(each[1]).findings}
    assert found == set(Verdict) - {Verdict.OK}


@pytest.mark.parametrize("path", RUNBOOKS, ids=lambda path: path.stem)
def test_commands_in_runbooks_are_harmless(path: Path) -> None:
    page = path.read_text()
    commands = [line for line in page.splitlines() if line.startswith("    ")]
    commands += re.findall(r"`(muster [^`]+)`", page)
    assert not [line for line in commands if HARMS.search(line)]


def test_alert_rules_suggest_no_harmful_command() -> None:
    assert not HARMS.search(RULES.read_text())


def test_commands_that_the_web_page_suggests_are_harmless() -> None:
    assert not [path.name for path in PAGE if HARMS.search(path.read_text())]


def test_only_listed_modules_suggest_the_option_execute_or_the_command_groups_delete() -> None:
    found = {
        str(path.relative_to(CHECKOUT))
        for room in ROOMS
        for path in (CHECKOUT / room).rglob("*.py")
        if re.search(r"--execute|groups delete", " ".join(_texts(ast.parse(path.read_text()))))
    }
    assert found == set(ANSWERS)


def _texts(module: ast.Module) -> Iterator[str]:
    """Yields the string literals of a module. Docstrings are omitted."""
    nodes = list(ast.walk(module))
    docs = {id(each.value) for each in nodes if isinstance(each, ast.Expr)}
    for each in nodes:
        if isinstance(each, ast.Constant) and isinstance(each.value, str) and id(each) not in docs:
            yield each.value
