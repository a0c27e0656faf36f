"""The recipes in docs/test/testing-with-muster.md pass, and fail when the tested behaviour is
removed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests import java
from tests.brokers import CHECKOUT

PAGE = (CHECKOUT / "docs" / "test" / "testing-with-muster.md").read_text()
RECIPES = PAGE.split("\n## Recipes\n")[1]
RECIPES_S_MAX = 900
"""The time limit in seconds for all recipes. On an idle machine the recipes need 20 s."""
WITHOUT = {
    "Commit before partitions are revoked": (", on_revoke=self.give_up", ""),
    "A poison record": ("except ValueError as error", "except KeyError as error"),
    "A rebalance in the middle of a batch": ("                return\n", "                pass\n"),
    "Records read again after a crash": ("billed % 3", "billed % 5"),
    "A session that expires": ("self.unwritten = 0  # these amounts", "pass  # these amounts"),
    "A coordinator that moves": ('        muster.move_coordinator("billing")\n', ""),
    "An offset that expires": (", on_assign=self.begin", ""),
    "A disk that is full for a minute": ("with muster.disk_full():", "if True:"),
    "A removed member of a consumer group": (", on_lost=self.start_again", ""),
    "A worker that does not give up its partition": ("slow.poll(1)  # revokes", "pass  # revokes"),
    "An upgrade to the consumer protocol, and back": (", on_revoke=self.give_up", ""),
    "A poison record in a share group": ("AcknowledgeType.REJECT", "AcknowledgeType.RELEASE"),
    "A worker that is slower than its lock": ("if order not in self.invoices", "if order"),
}
"""By title of a recipe: a text in the code of the recipe, and a replacement for this text. The
replacement removes the behaviour that the recipe tests, so the recipe must fail with it."""


def blocks(language: str, recipes: str = RECIPES) -> dict[str, list[str]]:
    """Returns the code blocks in ``language``, by the title of their recipe."""
    found = {}
    for section in recipes.split("\n### ")[1:]:
        code = re.findall(rf"```{language}\n(.*?)```", section, re.DOTALL)
        if code:
            found[section.partition("\n")[0]] = code
    return found


def run_pytest(folder: Path, files: dict[str, str]) -> dict[str, str]:
    """Runs each file with pytest in ``folder``. Returns "passed" or the failure, by file."""
    names = {}
    for number, (title, code) in enumerate(files.items()):
        names[f"test_{number}"] = title
        (folder / f"test_{number}.py").write_text(code)
    report = folder / "report.xml"
    options = ["-q", "-p", "no:cacheprovider", "--timeout=120", f"--junit-xml={report}"]
    subprocess.run(
        [sys.executable, "-P", "-m", "pytest", *options, str(folder)],
        cwd=folder,
        capture_output=True,
        check=False,
        timeout=RECIPES_S_MAX,
    )
    became = {}
    for case in ElementTree.parse(report).iter("testcase"):
        title = names[(case.get("classname") or "").rpartition(".")[2]]
        wrong = [each for each in case if each.tag in ("failure", "error")]
        became[title] = f"{wrong[0].tag}: {wrong[0].text}" if wrong else "passed"
    return became


@pytest.mark.campaign
@pytest.mark.timeout(RECIPES_S_MAX + 60)
def test_each_python_recipe_passes(tmp_path: Path) -> None:
    recipes = {title: code for title, [code] in blocks("python").items()}
    assert set(recipes) == set(WITHOUT)
    assert run_pytest(tmp_path, recipes) == dict.fromkeys(recipes, "passed")


@pytest.mark.campaign
@pytest.mark.timeout(RECIPES_S_MAX + 60)
def test_each_python_recipe_fails_when_its_tested_behaviour_is_removed(tmp_path: Path) -> None:
    without = {}
    for title, [code] in blocks("python").items():
        has, has_not = WITHOUT[title]
        assert code.count(has) == 1, title
        without[title] = code.replace(has, has_not)
    became = run_pytest(tmp_path, without)
    assert set(became) == set(WITHOUT)
    assert {title for title, what in became.items() if not what.startswith("failure")} == set()
    slow = {title: what for title, what in became.items() if "Timeout" in what}
    assert slow == {}, "a recipe timed out instead of failing"


@pytest.mark.interop
@pytest.mark.timeout(600)
@pytest.mark.parametrize("careful", [True, False], ids=["careful", "careless"])
def test_java_recipe_fails_without_the_line_that_it_explains(tmp_path: Path, careful: bool) -> None:
    jars = [*java.jars(java.KAFKA_NEW), *java.jars("junit-1.13.4")]
    classes = ":".join([str(tmp_path), *map(str, jars)])
    for code in blocks("java")["From Java"]:
        [name] = re.findall(r"^(?:public final )?class (\w+)", code, re.MULTILINE)
        told = code if careful else code.replace("unwritten = 0; // these", "// these")
        (tmp_path / f"{name}.java").write_text(told)
    sources = list(map(str, tmp_path.glob("*.java")))
    compiler = str(Path(java.java()).with_name("javac"))
    done = subprocess.run(
        [compiler, "-cp", classes, "-d", str(tmp_path), *sources],
        capture_output=True, text=True, check=False, timeout=240,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr

    (tmp_path / "bin").mkdir()
    command = tmp_path / "bin" / "muster"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m musterd "$@"\n')
    command.chmod(0o755)
    environment = {**os.environ, "PATH": f"{command.parent}:{os.environ['PATH']}"}
    done = subprocess.run(
        [java.java(), *java.FLAGS, "-cp", classes, "org.junit.platform.console.ConsoleLauncher",
         "execute", "--scan-classpath", str(tmp_path), "--details=tree", "--disable-banner"],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=240,
    )  # fmt: skip
    passed = f"[         {int(careful)} tests successful      ]"
    assert passed in done.stdout, done.stdout + done.stderr
    assert (done.returncode == 0) == careful
