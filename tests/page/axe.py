"""Runs axe-core, a program that finds accessibility violations of a page."""

from __future__ import annotations

import functools
import shutil
import subprocess
from pathlib import Path

from tests.absent import program
from tests.cached import cached
from tests.page.browser import Browser

DESCRIBED = Path(__file__).parents[1] / "data" / "npm" / "axe-core"
RUN = """
    const done = arguments[arguments.length - 1];
    const rules = { "color-contrast-enhanced": { enabled: false } };
    axe.run(document, { rules, resultTypes: ["violations", "incomplete"] }).then(
        (found) => done(found), (error) => done({ failed: String(error) }));
"""


@functools.cache
def script() -> str:
    """Returns the source of axe-core. npm downloads it with the version and the hash of
    package-lock.json."""
    lock = DESCRIBED / "package-lock.json"
    return (cached("axe-core", lock, _bring) / "node_modules/axe-core/axe.min.js").read_text()


def _bring(folder: Path) -> None:
    npm = program("npm", "npm")
    shutil.copytree(DESCRIBED, folder)
    subprocess.run(
        [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"],
        cwd=folder, check=True, timeout=300, stdout=subprocess.DEVNULL,
    )  # fmt: skip


def violations(browser: Browser) -> list[str]:
    """Returns the violations that axe-core finds on the shown page, one line per element."""
    if not browser.ask("return 'axe' in window"):
        browser.driver.execute_script(script())
    found = browser.driver.execute_async_script(RUN)
    assert "failed" not in found, found
    return [
        f"{rule['id']}: {node['target']} {node.get('failureSummary', '')} {node['html'][:200]}"
        for rule in found["violations"]
        for node in rule["nodes"]
    ]
