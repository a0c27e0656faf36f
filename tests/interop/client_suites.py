"""The test suites of other clients run on Muster. They are downloaded in a pinned version and
built.

The suites expect brokers at fixed addresses. Each suite therefore runs with its brokers in a
network namespace, in which all ports are free (`tests/interop/suite_network.py`). A suite is
skipped if its source or toolchain is not available, also with CI=true, because Muster needs
neither.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from tests.absent import absent, program
from tests.cached import cached

ROOT = Path(__file__).resolve().parents[2]
DESCRIBED = ROOT / "tests" / "data" / "suites"
BUILT_WITHIN_S = 600.0
RUN_WITHIN_S = 400.0
_program = partial(program, required=False)
_NETWORK = 'ip link set lo up && exec "$@"'


def go_suite(name: str) -> Path:
    """Returns the folder of a Go module from the module proxy. The tests of the module are built as
    `suite.test`."""
    go = _program("go", "golang-go")
    return cached(name, _description(name), lambda folder: _build_go(go, name, folder))


def _build_go(go: str, name: str, folder: Path) -> None:
    described = _described(name)
    module = f"{described['module']}@{described['version']}"
    told = json.loads(_done(name, [go, "mod", "download", "-json", module], Path("/")))
    assert told["Sum"] == described["sum"], told
    shutil.copytree(told["Dir"], folder)
    for path in (folder, *folder.rglob("*")):
        path.chmod(path.stat().st_mode | 0o200)
    # -mod=mod: a module may lack the checksums of packages that only its tests import.
    build = [go, "test", "-mod=mod", "-vet=off", "-tags", described.get("tags", ""), "-c"]
    _done(name, [*build, "-o", "suite.test", "."], folder)


def go_program(module: Path) -> Path:
    """Builds a Go module of the tests and returns the path of the program. go.sum has the checksums
    of its dependencies."""
    go = _program("go", "golang-go")
    return cached(module.name, module, lambda to: _build_program(go, module, to)) / module.name


def _build_program(go: str, module: Path, folder: Path) -> None:
    folder.mkdir()
    build = [go, "build", "-mod=readonly", "-buildvcs=false", "-o", str(folder / module.name), "."]
    _done(module.name, build, module)


def kafkajs() -> Path:
    """Returns the folder with the source of kafkajs and the dependencies of its tests. The npm
    package has no tests, so the source is downloaded."""
    git, npm = _program("git", "git"), _program("npm", "npm")
    return cached("kafkajs", _description("kafkajs"), lambda to: _bring_kafkajs(git, npm, to))


def _bring_kafkajs(git: str, npm: str, folder: Path) -> None:
    described = _described("kafkajs")
    clone = [git, "clone", "-q", "--depth", "1", "--branch", described["tag"]]
    _done("kafkajs", [*clone, described["repository"], str(folder)], Path("/"))
    commit = _done("kafkajs", [git, "rev-parse", "HEAD"], folder).strip()
    assert commit == described["commit"], commit
    (folder / "package.json").write_text('{"name": "kafkajs", "version": "2.2.4"}')
    install = [npm, "install", "--no-audit", "--no-fund", "--ignore-scripts", "--no-save"]
    _done("kafkajs", [*install, *described["packages"]], folder)


def _description(name: str) -> Path:
    return DESCRIBED / f"{name}.json"


def _described(name: str) -> Any:
    return json.loads(_description(name).read_text())


def _done(name: str, command: Sequence[str], folder: Path) -> str:
    """Runs a command and returns its output. Skips the test if the command fails, for example
    because the source cannot be downloaded."""
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=BUILT_WITHIN_S, check=False
    )
    if done.returncode:
        said = f"{name} was not downloaded and built: {command[:3]}: {done.stderr[-500:]}"
        absent(said, required=False)
    return done.stdout


def run(
    brokers: int,
    first_port: int,
    data: Path,
    suite: Sequence[str],
    folder: Path,
    environment: Mapping[str, str] | None = None,
) -> str:
    """Runs a suite with ``brokers`` brokers on consecutive ports, and returns its output. Accepts
    the exit codes 0 and 1."""
    unshare, ip = _program("unshare", "util-linux"), _program("ip", "iproute2")
    own = [unshare, "--user", "--map-root-user", "--net"]
    if subprocess.run([*own, ip, "link"], capture_output=True, check=False).returncode:
        said = "this test runs in a network of its own, which this machine does not permit"
        absent(said, required=False)
    spec = {
        "brokers": brokers,
        "port": first_port,
        "data": str(data),
        "suite": list(suite),
        "folder": str(folder),
        "environment": dict(environment or {}),
    }
    inside = [sys.executable, "-m", "tests.interop.suite_network", json.dumps(spec)]
    done = subprocess.run(
        [*own, "sh", "-c", _NETWORK, "sh", *inside],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=RUN_WITHIN_S,
        check=False,
    )
    return done.stdout + done.stderr
