"""`muster.pyz`: one file that needs Python but no installed packages."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import jwt
import pytest

from musterd import __version__
from tests.dist.environment import Environment, serves_and_cleans
from tests.interop.secured.tokens import Issuer
from tools import installed

pytestmark = pytest.mark.interop

SAID = f"muster {__version__}\n"
BASE = Path(sys.base_prefix) / "bin" / f"python3.{sys.version_info.minor}"
"""The Python interpreter that creates the environments. It has no installed packages."""


@pytest.fixture
def pyz(dist: Path, project: Path, tmp_path: Path) -> Callable[..., list[str]]:
    """Returns a function that returns the command line of muster.pyz. The cache of this muster.pyz
    is used only by this test."""

    def line(
        *flags: str, archive: Path = dist / "muster.pyz", packages: Path = project
    ) -> list[str]:
        cache = f"XDG_CACHE_HOME={tmp_path / 'cache'}"
        told = f"PYTHONPATH={packages}"
        return ["env", "-C", str(project), cache, told, str(BASE), "-s", *flags, str(archive)]

    return line


def unpacked(tmp_path: Path) -> Path:
    """Returns the folder into which muster.pyz was unpacked. Checks that the cache contains only
    this folder and a lock file."""
    lock, folder = sorted((tmp_path / "cache" / "muster").iterdir(), key=Path.is_dir)
    assert lock.name == f"{folder.name}.lock"
    return folder


def output_of(line: list[str]) -> str:
    done = subprocess.run(
        [*line, "--version"], capture_output=True, text=True, check=False, timeout=60
    )
    return done.stdout + done.stderr


def test_pyz_runs_broker_and_commands(pyz: Callable[..., list[str]], tmp_path: Path) -> None:
    serves_and_cleans(pyz("-P"), tmp_path / "data")
    assert (unpacked(tmp_path) / "musterd" / "_rooms" / "log").is_dir()
    assert output_of(pyz("-I")) == SAID


def test_pyz_is_unpacked_once_when_first_starts_are_concurrent(pyz: Callable[..., list[str]], tmp_path: Path) -> None:
    line = [*pyz(), "--version"]
    starts = [subprocess.Popen(line, stdout=subprocess.PIPE, text=True) for _ in range(4)]

    assert [each.communicate(timeout=60)[0] for each in starts] == [SAID] * 4
    assert unpacked(tmp_path).is_dir()


def test_pyz_imports_pyjwt_for_oauthbearer_from_pythonpath(
    pyz: Callable[..., list[str]], tmp_path: Path
) -> None:
    (tmp_path / "keys").mkdir()
    bearer = tmp_path / "bearer"
    bearer.mkdir()
    (bearer / "jwt").symlink_to(Path(jwt.__file__).parent)
    settings = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": Issuer(tmp_path / "keys").keys_url,
    }
    words = ["serve", "--data", str(tmp_path / "data"), "--http", "off"]
    words += [f"--set={name}={value}" for name, value in settings.items()]

    def first_line(packages: Path) -> str:
        command = [*pyz(packages=packages), *words]
        broker = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        try:
            assert broker.stdout is not None
            return broker.stdout.readline()
        finally:
            broker.kill()
            broker.wait(30)

    assert "OAUTHBEARER needs the package PyJWT" in first_line(tmp_path)
    assert "accepts connections" in first_line(bearer)


def truncate(folder: Path) -> Path:
    file = folder / "musterd" / "_rooms" / "cli" / "main.py"
    file.write_bytes(file.read_bytes()[:100])
    return file


def remove(folder: Path) -> Path:
    file = folder / "musterd" / "_rooms" / "cli" / "output.py"
    file.unlink()
    return file


def write_over(folder: Path) -> Path:
    file = folder / "musterd" / "__init__.py"
    file.write_text(file.read_text().replace(__version__, "6.6.6"))
    return file


def test_pyz_is_unpacked_again_only_when_its_cache_is_damaged(
    pyz: Callable[..., list[str]], tmp_path: Path
) -> None:
    assert output_of(pyz()) == SAID
    folder = unpacked(tmp_path)
    whole = {path: path.read_bytes() for path in folder.rglob("*.py")}
    made = folder.stat().st_ino
    assert output_of(pyz()) == SAID
    assert unpacked(tmp_path).stat().st_ino == made

    for damage in (truncate, remove, write_over):
        damaged = damage(folder)
        assert output_of(pyz()) == SAID
        assert damaged.read_bytes() == whole[damaged]
        assert unpacked(tmp_path) == folder


def test_start_replaces_half_unpacked_folder_of_a_killed_start(
    pyz: Callable[..., list[str]], tmp_path: Path
) -> None:
    assert output_of(pyz()) == SAID
    folder = unpacked(tmp_path)
    half = folder.rename(folder.with_suffix(".new"))
    shutil.rmtree(half / "musterd")
    (half / "typer" / "__init__.py").write_text("")

    assert output_of(pyz()) == SAID
    assert unpacked(tmp_path) == folder


def test_unwritable_cache_is_reported_in_one_line(
    pyz: Callable[..., list[str]], tmp_path: Path
) -> None:
    (tmp_path / "cache").write_text("a file")

    assert output_of(pyz()) == (
        f"muster: can't unpack to {tmp_path}/cache/muster: Not a directory; set XDG_CACHE_HOME"
        " to another folder\n"
    )


@pytest.mark.parametrize(
    ("built_for", "other", "told"),
    [
        (
            f'ABI = "cpython-3{sys.version_info.minor}-',
            'ABI = "cpython-36m-',
            "is for cpython-36m-",
        ),
        ('GLIBC = "2.', 'GLIBC = "99.', "needs glibc 99."),
    ],
)
def test_wrong_python_or_glibc_is_reported_in_one_line(
    pyz: Callable[..., list[str]], dist: Path, tmp_path: Path, built_for: str, other: str, told: str
) -> None:
    elsewhere = tmp_path / "elsewhere.pyz"
    with (
        zipfile.ZipFile(dist / "muster.pyz") as whole,
        zipfile.ZipFile(elsewhere, "w") as archive,
    ):
        start = whole.read("__main__.py").decode()
        assert start.count(built_for) == 1
        installed.add(archive, "__main__.py", start.replace(built_for, other).encode())
        installed.add(archive, "files", whole.read("files"))

    sentence = output_of(pyz(archive=elsewhere))

    assert sentence.startswith(f"muster: this muster.pyz {told}")
    assert sentence.count("\n") == 1


def test_pyz_runs_in_a_virtual_environment(clean: Environment, dist: Path, tmp_path: Path) -> None:
    cache = str(tmp_path / "cache")
    assert clean.run("python", str(dist / "muster.pyz"), "--version", XDG_CACHE_HOME=cache) == SAID
