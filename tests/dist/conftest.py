"""Fixtures with the output of `make dist`, and with environments in which this output is installed.
All pytest workers share the fixtures. An environment has exactly the packages that the wheel
requires. The packages are hard links to packages that are already installed, so that no network is
needed."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.brokers import CHECKOUT
from tests.dist.environment import Environment, run
from tools import installed

UV = Path(sys.executable).parent / "uv"
CLASHING = ("broker", "cli", "log", "offsets", "pipeline", "protocol")
"""Module names that other projects probably use. Muster's packages have the same names."""


def once(shared: Path, name: str, make: Callable[[Path], None]) -> Path:
    """Returns the folder ``name``. The first test process that calls this function creates the
    folder with ``make``."""
    folder = shared / name
    with open(shared / f"{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            partial = shared / f"{name}.partial"
            make(partial)
            partial.rename(folder)
    return folder


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


MAKE_S_MAX = 240
"""The maximum duration of `make dist` in seconds, for a busy machine. An idle machine takes a few
seconds."""


NO_BUILDAH = {"PATH": "/nowhere"}
"""Environment variables that hide buildah. Without buildah, `make dist` does not build the
container image, which these tests do not need."""


@pytest.fixture(scope="session")
def dist(shared: Path) -> Path:
    """Returns the output folder of `make dist`. It contains no container image."""

    def make(folder: Path) -> None:
        command = [sys.executable, "tools/make_dist.py", str(folder)]
        env = {**os.environ, **NO_BUILDAH}
        subprocess.run(command, cwd=CHECKOUT, check=True, timeout=MAKE_S_MAX, env=env)

    return once(shared, "dist", make)


@pytest.fixture(scope="session")
def wheel(dist: Path) -> Path:
    (found,) = dist.glob("musterd-*-py3-none-any.whl")
    return found


@pytest.fixture(scope="session")
def project(shared: Path) -> Path:
    """Returns the folder of another project, whose modules have the names of Muster's packages."""

    def make(folder: Path) -> None:
        folder.mkdir()
        for name in CLASHING:
            (folder / f"{name}.py").write_text("WHOSE = 'the stranger'\n")

    return once(shared, "project", make)


@pytest.fixture(scope="session")
def clean(shared: Path, wheel: Path, project: Path) -> Environment:
    """Creates a virtual environment with `pip install dist/musterd-*.whl pytest confluent-kafka`.
    The environment can also import the modules of the folder ``project``."""
    wanted = ("musterd", "pytest", "confluent-kafka")
    return Environment(_installed(shared, "clean", wheel, wanted), project)


@pytest.fixture(scope="session")
def with_pipeline(shared: Path, wheel: Path, project: Path) -> Environment:
    """Returns an environment after `pip install 'dist/musterd-*.whl[pipeline]'`. It can also import
    the modules in the folder ``project``, which have the names of Muster's packages."""
    wanted = ("musterd[pipeline]",)
    return Environment(_installed(shared, "with-pipeline", wheel, wanted), project)


@pytest.fixture(scope="session")
def of_git(shared: Path, project: Path) -> Environment:
    """Returns an environment after `pip install git+URL`. The URL is that of a clone of this
    checkout."""

    def make(folder: Path) -> None:
        clone = ["git", "clone", "--quiet", "--no-hardlinks", str(CHECKOUT), str(folder)]
        subprocess.run(clone, check=True, timeout=MAKE_S_MAX)

    source = f"git+file://{once(shared, 'clone', make)}"
    wanted = ("musterd", "hatchling")  # hatchling builds the wheel, without a network
    return Environment(_installed(shared, "of-git", source, wanted), project)


def _installed(shared: Path, name: str, source: Path | str, wanted: tuple[str, ...]) -> Path:
    """Returns an environment with the packages ``wanted`` and with Muster, installed from a wheel
    or a git URL."""
    # `once` renames its folder, but an environment contains its own path.
    folder = shared / name
    with open(shared / f"{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "whole").exists():
            _install(folder, source, wanted)
            (folder / "whole").touch()
    return folder


def _install(folder: Path, source: Path | str, wanted: tuple[str, ...]) -> None:
    python = folder / "bin" / "python"
    uv(["venv", "--quiet", "--python", sys.executable, str(folder)])
    (site,) = folder.glob("lib/python*/site-packages")
    for package in installed.needed(wanted):
        if package.metadata["Name"] == "musterd":  # replaced by the wheel
            continue
        for file, at in installed.files(package):
            to = site / str(file)
            to.parent.mkdir(parents=True, exist_ok=True)
            try:
                os.link(at, to)
            except OSError:  # the folder is on another disk
                shutil.copyfile(at, to)
    if isinstance(source, Path):
        offline = ["--offline", "--no-index", "--no-deps", "--quiet"]
        uv(["pip", "install", *offline, "--python", str(python), str(source)])
    else:
        offline = ["--no-index", "--no-deps", "--no-build-isolation", "--quiet"]
        pip = [sys.executable, "-m", "pip", "--python", str(python), "install", *offline]
        run([*pip, source], within_s=MAKE_S_MAX)
    uv(["pip", "check", "--quiet", "--python", str(python)])  # the required packages are complete


def uv(words: list[str]) -> None:
    """Runs uv. Raises AssertionError with the output of uv if it fails."""
    done = subprocess.run([UV, *words], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
