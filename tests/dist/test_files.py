"""The files in the wheel and in the sdist, and reproducible builds."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

from musterd import __version__
from musterd.rooms import ROOMS
from tests.absent import program
from tests.brokers import CHECKOUT
from tests.dist.conftest import MAKE_S_MAX, NO_BUILDAH
from tools import compiled_wheel, installed

pytestmark = pytest.mark.interop

INFO = f"musterd-{__version__}.dist-info"
BUILD_WHEEL = "import sys, hatchling.build as b; print(b.build_wheel(sys.argv[1]))"


def sources(name: str) -> set[str]:
    found = (path.relative_to(CHECKOUT) for path in (CHECKOUT / name).rglob("*.py"))
    return {str(path) for path in found}


def data_files() -> set[str]:
    """Returns the files in the source tree that the broker serves over HTTP."""
    web = CHECKOUT / "broker" / "web"
    kinds = ("page/*", "runbooks/*.md", "openapi.json")
    return {str(path.relative_to(CHECKOUT)) for kind in kinds for path in web.glob(kind)}


def c_files() -> set[str]:
    """Returns the source files of the compiled codecs."""
    return {f"protocol/c/{path.name}" for path in (CHECKOUT / "protocol" / "c").glob("*.[ch]")}


def private() -> set[str]:
    return data_files().union(*(sources(room) for room in ROOMS))


def test_wheel_contains_only_the_musterd_package(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as opened:
        names = set(opened.namelist())

    about = {"METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE"}
    assert names == {
        *sources("musterd"),
        "musterd/py.typed",
        *(f"musterd/_rooms/{name}" for name in private()),
        *(f"{INFO}/{name}" for name in about),
    }
    assert wheel.name == f"musterd-{__version__}-py3-none-any.whl"


def test_compiled_wheel_has_the_files_of_the_pure_wheel_and_the_compiled_codecs(wheel: Path, tmp_path: Path) -> None:
    program("cc", "gcc")
    made = compiled_wheel.make(wheel, tmp_path)

    assert made.name == f"musterd-{__version__}-{compiled_wheel.tag()}.whl"
    with zipfile.ZipFile(wheel) as opened, zipfile.ZipFile(made) as more:
        assert {*more.namelist()} - {*opened.namelist()} == {compiled_wheel.PLACE}
        about = more.read(f"{INFO}/WHEEL").decode()
        more.extractall(tmp_path)
    assert f"Tag: {compiled_wheel.tag()}\n" in about
    assert "Root-Is-Purelib: false\n" in about
    for line in (tmp_path / INFO / "RECORD").read_text().splitlines():
        name, digest, size = line.rsplit(",", 2)
        data = (tmp_path / name).read_bytes()
        assert (digest, size) == ("", "") or line == installed.record_line(name, data)
    in_use = subprocess.run(
        [sys.executable, "-c", "from protocol.compiled import IN_USE; print(IN_USE)"],
        cwd=tmp_path / "musterd" / "_rooms", check=True, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert in_use.stdout == "compiled\n"


def test_wheel_requires_no_package_that_needs_a_compiler(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as opened:
        told = Parser().parsestr(opened.read(f"{INFO}/METADATA").decode())

    needed = {line.partition(">=")[0] for line in told.get_all("Requires-Dist", ())}
    assert "crc32c" in needed
    assert "crcmod" not in needed, "it comes as source alone"
    assert told["Requires-Python"] == ">=3.11"
    assert {"light", "lakehouse", "pipeline"} <= set(told.get_all("Provides-Extra", ()))


def test_sdist_contains_the_sources_and_builds_the_same_wheel(
    dist: Path, wheel: Path, tmp_path: Path
) -> None:
    top = f"musterd-{__version__}"
    with tarfile.open(dist / f"{top}.tar.gz") as opened:
        names = {member.name.removeprefix(f"{top}/") for member in opened if member.isfile()}
        opened.extractall(tmp_path, filter="data")

    about = {"LICENSE", "README.md", "CHANGELOG.md", "pyproject.toml", "PKG-INFO", ".gitignore"}
    assert names == {*sources("musterd"), "musterd/py.typed", *private(), *c_files(), *about}
    made = subprocess.run(
        [sys.executable, "-c", BUILD_WHEEL, str(tmp_path)], cwd=tmp_path / top,
        check=True, capture_output=True, text=True, timeout=60,
    ).stdout.split()[-1]  # fmt: skip
    assert (tmp_path / made).read_bytes() == wheel.read_bytes()


def test_build_is_identical_when_paths_times_and_file_modes_differ(dist: Path, tmp_path: Path) -> None:
    copy = tmp_path / "elsewhere"
    copy.mkdir()
    for name in (*ROOMS, "musterd", "tools"):
        shutil.copytree(CHECKOUT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", ".gitignore"):
        shutil.copyfile(CHECKOUT / name, copy / name)
    for path in copy.rglob("*"):
        os.utime(path, (1_700_000_000, 1_700_000_000))
        path.chmod(0o700 if path.is_dir() else 0o600)

    subprocess.run(
        [sys.executable, str(copy / "tools" / "make_dist.py"), str(tmp_path / "again")],
        cwd=tmp_path, check=True, timeout=MAKE_S_MAX, umask=0o077,
        env={**os.environ, **NO_BUILDAH, "TZ": "Asia/Tokyo", "LC_ALL": "C", "PYTHONHASHSEED": "7"},
    )  # fmt: skip

    made = {path.name: path.read_bytes() for path in (tmp_path / "again").iterdir()}
    assert made.keys() == {path.name for path in dist.iterdir()}
    assert [name for name in made if (dist / name).read_bytes() != made[name]] == []
