"""Each alert has a runbook, and promtool tests in which it fires and does not fire."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from cli.main import _COMMANDS, _app
from tests.absent import program

CHECKOUT = Path(__file__).parents[2]
RULES = CHECKOUT / "dashboards" / "prometheus"
RUNBOOKS = CHECKOUT / "broker" / "web" / "runbooks"
RULES_OF = {
    rule.split("\n")[0]: rule for rule in (RULES / "rules.yml").read_text().split("- alert: ")[1:]
}
NAMES = list(RULES_OF)


@pytest.mark.interop
@pytest.mark.parametrize(
    "command",
    [("check", "rules", "rules.yml"), ("test", "rules", "alerts_test.yml")],
    ids=lambda command: command[0],
)
def test_promtool_accepts_rules_and_their_tests(command: tuple[str, ...]) -> None:
    promtool = program("promtool", "prometheus")
    done = subprocess.run(
        [promtool, *command], cwd=RULES, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", NAMES)
def test_each_alert_has_a_promtool_test_for_firing_and_for_not_firing(name: str) -> None:
    tests = (RULES / "alerts_test.yml").read_text()
    assert f"name: {name} fires" in tests
    assert f"name: {name} is quiet" in tests


@pytest.mark.parametrize("name", NAMES)
def test_each_alert_has_a_runbook_with_steps(name: str) -> None:
    page = (RUNBOOKS / f"{name}.md").read_text()
    assert page.startswith(f"# {name}\n")
    assert re.search(r"^## What to do\n\n1\. ", page, re.M)


def test_each_runbook_belongs_to_an_alert() -> None:
    assert {path.stem for path in RUNBOOKS.iterdir()} == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_each_alert_links_to_its_runbook_on_the_affected_broker(name: str) -> None:
    link = re.search(r'^ +runbook_url: "(.*)"$', RULES_OF[name], re.M)
    assert link is not None
    where, _, group = link[1].partition("?")
    assert where == f"http://{{{{ $labels.instance }}}}/runbooks/{name}"
    assert bool(group) == ("$labels.consumergroup" in RULES_OF[name].split("runbook_url")[0])


def test_documented_sed_command_changes_runbook_links_to_https(tmp_path: Path) -> None:
    page = (CHECKOUT / "docs" / "operate" / "metrics.md").read_text()
    command = re.search(r"^    (sed .*) dashboards/prometheus/rules.yml$", page, re.M)
    assert command is not None
    assert f"#   {command[1]} rules.yml\n" in (RULES / "rules.yml").read_text()
    shutil.copy(RULES / "rules.yml", tmp_path)
    subprocess.run([*shlex.split(command[1]), "rules.yml"], cwd=tmp_path, check=True)
    links = re.findall(r'runbook_url: "(\w+):', (tmp_path / "rules.yml").read_text())
    assert links == ["https"] * len(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_alert_summary_states_the_duration_after_which_the_alert_fires(name: str) -> None:
    waits = re.search(r"^ +for: (\d+)m$", RULES_OF[name], re.M)
    summary = re.search(r"^ +summary: (.*)$", RULES_OF[name], re.M)
    assert summary is not None
    if waits is not None:
        assert ("a minute" if waits[1] == "1" else f"{waits[1]} minutes") in summary[1]


def commands() -> list[str]:
    return [
        f"{path.stem}: {line.strip()}"
        for path in sorted(RUNBOOKS.iterdir())
        for line in path.read_text().splitlines()
        if line.startswith("    ") and line.split()[0] == "muster" and line.split()[1] != "serve"
    ]


@pytest.mark.parametrize("command", commands())
def test_commands_in_runbooks_are_valid(command: str) -> None:
    line = command.partition(": muster ")[2].partition(" | ")[0]
    app: Any = get_command(_app(list(_COMMANDS)))
    context = app.make_context("muster", shlex.split(line))
    while hasattr(context.command, "commands") and context._protected_args:
        name, inner, rest = context.command.resolve_command(context, context._protected_args)
        context = inner.make_context(name, [*rest, *context.args], parent=context)
