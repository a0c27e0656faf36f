"""The examples in docs/test/testing-with-muster.md and docs/test/clusters.md pass unchanged."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.brokers import CHECKOUT

BLOCK = re.compile(r"^```python\n(.*?)^```$", re.S | re.M)
SHARED = "# conftest.py\n"


def blocks(page: str) -> list[str]:
    """Returns the Python code blocks that precede the section "Over HTTP" of a page."""
    return BLOCK.findall((CHECKOUT / page).read_text().split("\n## Over HTTP\n")[0])


def run(folder: Path, *files: str) -> str:
    """Runs test files with pytest in ``folder``, and returns the last line of pytest's output."""
    for number, text in enumerate(files):
        name = "conftest.py" if text.startswith(SHARED) else f"test_example_{number}.py"
        (folder / name).write_text(text)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:randomly", "-p", "no:cacheprovider"],
        cwd=folder, env=os.environ | {"PYTEST_ADDOPTS": ""}, capture_output=True, text=True,
        timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()[-1]


@pytest.mark.campaign
def test_python_examples_on_the_page_testing_with_muster_pass(tmp_path: Path) -> None:
    found = blocks("docs/test/testing-with-muster.md")
    tests = sum(len(re.findall(r"^(?:async )?def test_", text, re.M)) for text in found)

    assert tests > 8
    assert run(tmp_path, *found).startswith(f"{tests} passed")


@pytest.mark.campaign
def test_python_examples_on_the_page_about_clusters_pass(tmp_path: Path) -> None:
    found = blocks("docs/test/clusters.md")

    assert len(found) == 2
    assert run(tmp_path, *found).startswith("3 passed")
