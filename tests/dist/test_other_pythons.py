"""The wheel on other Python versions, with packages from the registry. Only `make soak` runs these
tests, because they need a network."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.absent import program
from tests.dist.conftest import uv
from tests.dist.environment import WAYS, Environment, serves_and_cleans

pytestmark = pytest.mark.soak


@pytest.mark.parametrize("version", ["3.12", "3.13"])
def test_wheel_installs_from_binary_packages_only_and_runs(
    version: str, wheel: Path, project: Path, tmp_path: Path
) -> None:
    python = program(f"python{version}", f"python{version}-venv")
    folder = tmp_path / "environment"
    uv(["venv", "--python", python, str(folder)])
    binary = ["--only-binary", ":all:", "--python", str(folder / "bin" / "python")]
    uv(["pip", "install", *binary, str(wheel)])
    environment = Environment(folder, project)

    for words in WAYS.values():
        assert environment.run(*words, "--version").startswith("muster ")
    serves_and_cleans(environment.line(WAYS["-P"]), tmp_path / "data")
