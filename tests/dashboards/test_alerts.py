"""The alerts: each fires when it should and is quiet when not, and has its page."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.absent import program

CHECKOUT = Path(__file__).parents[2]
RULES = CHECKOUT / "dashboards" / "prometheus"
NAMES = re.findall(r"alert: (\w+)", (RULES / "rules.yml").read_text())


@pytest.mark.interop
@pytest.mark.parametrize(
    "command",
    [("check", "rules", "rules.yml"), ("test", "rules", "alerts_test.yml")],
    ids=lambda command: command[0],
)
def test_promtool(command: tuple[str, ...]) -> None:
    promtool = program("promtool", "prometheus")
    done = subprocess.run(
        [promtool, *command], cwd=RULES, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", NAMES)
def test_each_fires_and_is_quiet_in_a_test(name: str) -> None:
    tests = (RULES / "alerts_test.yml").read_text()
    assert f"name: {name} fires" in tests
    assert f"name: {name} is quiet" in tests


@pytest.mark.parametrize("name", NAMES)
def test_each_has_a_runbook_that_says_what_to_do(name: str) -> None:
    assert f"runbook: docs/runbooks/{name}.md\n" in (RULES / "rules.yml").read_text()
    page = (CHECKOUT / "docs" / "runbooks" / f"{name}.md").read_text()
    assert page.startswith(f"# {name}\n")
    assert re.search(r"^## What to do\n\n1\. ", page, re.M)


def test_there_is_no_runbook_without_an_alert() -> None:
    assert {path.stem for path in (CHECKOUT / "docs" / "runbooks").iterdir()} == set(NAMES)
