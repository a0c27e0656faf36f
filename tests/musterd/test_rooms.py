"""Tests that musterd imports its own packages even when other modules have the same names."""

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
    """Returns a folder whose modules have the same names as packages that Muster contains or
    imports."""
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
def test_musterd_ignores_modules_of_the_working_folder(flags: list[str], strangers: Path) -> None:
    said = python(*flags, "-m", "musterd", "--version", at=strangers)

    assert said == f"muster {__version__}\n"


def test_musterd_ignores_modules_in_pythonpath_with_names_of_its_packages(strangers: Path) -> None:
    for name in ("typer", "signal"):  # PYTHONPATH may replace modules that are not Muster's
        (strangers / f"{name}.py").unlink()
    path = str(strangers)

    said = python("-m", "musterd", "--version", at=strangers, PYTHONPATH=path)

    assert said == f"muster {__version__}\n"


def test_musterd_replaces_imported_modules_with_names_of_its_packages(tmp_path: Path) -> None:
    (tmp_path / "cli.py").write_text("")
    (tmp_path / "sitecustomize.py").write_text("import cli")

    said = python("-m", "musterd", "--version", at=tmp_path, PYTHONPATH=str(tmp_path))

    assert said == f"muster {__version__}\n"


def test_import_of_musterd_loads_no_other_package_of_muster() -> None:
    asked = (
        "import sys; before, path = set(sys.modules), list(sys.path); import musterd;"
        "print(sorted(set(sys.modules) - before), sys.path == path)"
    )

    assert python("-c", asked, at=Path("/")) == "['musterd'] True\n"


def test_every_package_listed_in_rooms_exists() -> None:
    assert all((Path(rooms.FOLDER) / name / "__init__.py").is_file() for name in rooms.ROOMS)
