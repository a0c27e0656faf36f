"""The systemd unit, the container file and the settings beside them fit the program they start."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

from cli.config.check import HONOURED, rows_of
from cli.serve import _parser
from tests.absent import program
from tests.brokers import free_port
from tests.waiting import until

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
UNIT = (DEPLOY / "muster.service").read_text()
CONTAINER = (DEPLOY / "Containerfile").read_text()


def unit(key: str) -> str:
    found = re.findall(rf"^{key}=(.*)$", UNIT, re.MULTILINE)
    assert len(found) == 1, f"{key}: {found}"
    return str(found[0])


def container(word: str) -> list[str]:
    return re.findall(rf"^{word} (.*)$", CONTAINER.replace("\\\n", ""), re.MULTILINE)


def test_the_unit_starts_a_broker_that_is_not_root() -> None:
    program, command, *words = shlex.split(unit("ExecStart"))
    options = _parser().parse_args(words)

    assert (Path(program).name, command) == ("muster", "serve")
    assert unit("User") == unit("Group") == "muster"
    assert options.data == f"/var/lib/{unit('StateDirectory')}"
    assert str(options.config) == shlex.split(unit("ExecStartPre"))[-1]
    assert "HUP" in unit("ExecReload")


def test_systemd_finds_nothing_wrong_with_the_unit(tmp_path: Path) -> None:
    """Its own reader, which complains of unknown keys and values and of what is no program."""
    verify = program("systemd-analyze", "systemd")
    installed = tmp_path / "muster"
    installed.write_text("#!/bin/sh\n")
    installed.chmod(0o755)
    said = {}
    for name, text in (
        ("muster", UNIT),
        ("wrong", UNIT.replace("KillMode=mixed", "KillMode=mixt")),
    ):
        file = tmp_path / f"{name}.service"
        file.write_text(text.replace("/opt/muster/bin/muster", str(installed)))
        command = [verify, "verify", str(file)]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        said[name] = f"{done.stdout}{done.stderr}"

    assert said["muster"] == ""
    assert "mixt" in said["wrong"], "it does read them"


def test_the_settings_beside_it_all_hold() -> None:
    rows = rows_of(DEPLOY / "server.properties")
    assert rows
    assert {row["verdict"] for row in rows} == {HONOURED}


def test_the_container_starts_a_broker_that_is_not_root() -> None:
    words = [*json.loads(container("ENTRYPOINT")[0]), *json.loads(container("CMD")[0])]
    options = _parser().parse_args(words[2:])

    assert words[:2] == ["muster", "serve"]
    assert [options.data] == container("VOLUME")
    assert container("USER") == ["10001:10001"]
    ports = {options.listen.rpartition(":")[2], options.http.rpartition(":")[2]}
    assert set(container("EXPOSE")[0].split()) == ports


def test_the_containers_check_of_its_health_fails_once_the_broker_is_dead(tmp_path: Path) -> None:
    """Its very command, at a port that is free here: both it and the broker get that one."""
    options = _parser().parse_args(json.loads(container("ENTRYPOINT")[0])[2:])
    _, _, port = options.http.rpartition(":")
    free = str(free_port())
    command = json.loads(container("HEALTHCHECK")[0].partition(" CMD ")[2])
    check = [sys.executable, *(word.replace(f":{port}/", f":{free}/") for word in command[1:])]
    assert command[0] == "python"
    assert free in check[-1]

    def is_healthy() -> bool:
        return subprocess.run(check, check=False, capture_output=True, timeout=30).returncode == 0

    assert not is_healthy(), "nobody is there yet"
    address = f"127.0.0.1:{free_port()}"
    broker = subprocess.Popen(
        [sys.executable, "-m", "cli.main", "serve", "--data", str(tmp_path / "data"),
         "--listen", address, "--http", f"127.0.0.1:{free}"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=ROOT,
    )  # fmt: skip
    try:
        until("the broker is healthy", is_healthy)
    finally:
        broker.kill()
        broker.wait(30)
    assert not is_healthy()


def test_what_the_container_is_built_from_is_there() -> None:
    sources = [line.split()[-2] for line in container("COPY") if "--from" not in line]
    assert sources
    assert all((ROOT / source).exists() for source in sources)
    assert "setuptools==" in (ROOT / "requirements" / "broker.txt").read_text()
