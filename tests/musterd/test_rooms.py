"""The program finds its packages whatever a stranger's are called; nobody else meets them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from musterd import __version__, rooms

CLASHING = ("log", "cli", "broker", "protocol", "offsets", "typer", "signal")


@pytest.fixture
def strangers(tmp_path: Path) -> Path:
    """A folder with modules that are called as ours are, and as some that ours import."""
    for name in CLASHING:
        (tmp_path / f"{name}.py").write_text(f"raise SystemExit('a stranger: {name}')\n")
    return tmp_path


def python(*words: str, at: Path, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, *words], cwd=at, env={**os.environ, **environment}, timeout=60,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("flags", [[], ["-P"], ["-I"]])
def test_the_folder_it_is_started_in_is_not_looked_into(flags: list[str], strangers: Path) -> None:
    said = python(*flags, "-m", "musterd", "--version", at=strangers)

    assert said == f"muster {__version__}\n"


def test_strangers_in_pythonpath_come_behind(strangers: Path) -> None:
    for name in ("typer", "signal"):  # who names these in PYTHONPATH means them
        (strangers / f"{name}.py").unlink()
    path = str(strangers)

    said = python("-m", "musterd", "--version", at=strangers, PYTHONPATH=path)

    assert said == f"muster {__version__}\n"


def test_what_is_imported_before_us_is_put_aside(tmp_path: Path) -> None:
    (tmp_path / "cli.py").write_text("")
    (tmp_path / "sitecustomize.py").write_text("import cli")

    said = python("-m", "musterd", "--version", at=tmp_path, PYTHONPATH=str(tmp_path))

    assert said == f"muster {__version__}\n"


def test_to_import_musterd_brings_none_of_the_packages() -> None:
    asked = (
        "import sys; before, path = set(sys.modules), list(sys.path); import musterd;"
        "print(sorted(set(sys.modules) - before), sys.path == path)"
    )

    assert python("-c", asked, at=Path("/")) == "['musterd'] True\n"


def test_each_package_of_the_program_is_known() -> None:
    assert all((Path(rooms.FOLDER) / name / "__init__.py").is_file() for name in rooms.ROOMS)
