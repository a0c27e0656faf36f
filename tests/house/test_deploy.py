"""The systemd unit, the container file and the deployment manifests start a broker."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from cli.config.check import HONOURED, rows_of
from cli.serve import _parser
from tests.absent import program
from tests.brokers import free_port
from tests.waiting import until

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
COMPOSE = DEPLOY / "compose.yaml"
COMPOSE_SECURED = DEPLOY / "compose-secured.yaml"
KUBERNETES = DEPLOY / "kubernetes.yaml"
KUBERNETES_SECURED = DEPLOY / "kubernetes-secured.yaml"
CRONJOB = DEPLOY / "history" / "cronjob.yaml"
UNIT = (DEPLOY / "muster.service").read_text()
CONTAINER = (DEPLOY / "Containerfile").read_text()


def unit(key: str) -> str:
    found = re.findall(rf"^{key}=(.*)$", UNIT, re.MULTILINE)
    assert len(found) == 1, f"{key}: {found}"
    return str(found[0])


def container(word: str) -> list[str]:
    return re.findall(rf"^{word} (.*)$", CONTAINER.replace("\\\n", ""), re.MULTILINE)


def test_systemd_unit_starts_a_broker_without_root() -> None:
    program, command, *words = shlex.split(unit("ExecStart"))
    options = _parser().parse_args(words)

    assert (Path(program).name, command) == ("muster", "serve")
    assert unit("User") == unit("Group") == "muster"
    assert options.data == f"/var/lib/{unit('StateDirectory')}"
    assert str(options.config) == shlex.split(unit("ExecStartPre"))[-1]
    assert "HUP" in unit("ExecReload")


def test_installed_files_with_secrets_are_readable_only_by_the_broker() -> None:
    """The secrets are the token in the settings file and the private key in the certificate
    file."""
    page = (ROOT / "docs" / "operate" / "operating.md").read_text()
    installed = re.findall(r"^    install .*-m (\d+) .*?(\S+) /etc/muster/\S*$", page, re.MULTILINE)

    assert {Path(source).name for _, source in installed} == {
        "server.properties",
        "secured.properties",
        "broker.pem",
    }
    assert {mode for mode, _ in installed} == {"0640", "0600"}


def test_systemd_analyze_accepts_the_unit(tmp_path: Path) -> None:
    """systemd-analyze finds unknown keys and values, and programs that do not exist."""
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
    assert "mixt" in said["wrong"], "systemd-analyze did not report the wrong value"


def test_broker_supports_all_settings_of_the_systemd_unit() -> None:
    rows = rows_of(DEPLOY / "server.properties")
    assert rows
    assert {row["verdict"] for row in rows} == {HONOURED}


def test_container_runs_the_broker_as_a_user_other_than_root() -> None:
    words = [*json.loads(container("ENTRYPOINT")[0]), *json.loads(container("CMD")[0])]
    options = _parser().parse_args(words[2:])

    assert words[:2] == ["muster", "serve"]
    assert [options.data] == container("VOLUME")
    assert container("USER") == ["10001:10001"]
    ports = {options.listen.rpartition(":")[2], options.http.rpartition(":")[2]}
    assert set(container("EXPOSE")[0].split()) == ports


def test_container_healthcheck_fails_when_the_broker_is_dead(tmp_path: Path) -> None:
    """The test runs the HEALTHCHECK command of the container file with another port: before a
    broker listens on the port, while it listens, and after its end."""
    options = _parser().parse_args(json.loads(container("ENTRYPOINT")[0])[2:])
    _, _, port = options.http.rpartition(":")
    free = str(free_port())
    command = json.loads(container("HEALTHCHECK")[0].partition(" CMD ")[2])
    check = [sys.executable, *(word.replace(f":{port}/", f":{free}/") for word in command[1:])]
    assert command[0] == "python"
    assert free in check[-1]

    def is_healthy() -> bool:
        return subprocess.run(check, check=False, capture_output=True, timeout=30).returncode == 0

    assert not is_healthy(), "no broker runs yet"
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


def test_files_copied_by_the_container_file_exist() -> None:
    sources = [line.split()[-2] for line in container("COPY") if "--from" not in line]
    assert sources
    assert all((ROOT / source).exists() for source in sources)
    assert "hatchling==" in (ROOT / "requirements" / "broker.txt").read_text()


def locked(name: str) -> dict[str, str]:
    """Returns the locked version of each package in ``requirements/NAME.txt``."""
    text = (ROOT / "requirements" / f"{name}.txt").read_text()
    assert "://" not in text, "the file must not name an index"
    assert text.count("--hash=") >= text.count("==") > 0
    return dict(re.findall(r"^([a-z0-9-]+)(?:\[[^]]*\])?==(\S+)", text, re.MULTILINE))


def test_packages_installed_by_the_container_file_are_locked() -> None:
    named = re.findall(r'PACKAGES=(?:"([^"]+)"|(\w+))', CONTAINER.partition("\nFROM")[2])
    lists = {each for words in named for word in words for each in word.split()}

    assert lists == {"broker", "pipeline", "oauthbearer"}
    assert all(locked(each) for each in lists)


def test_locked_packages_of_extra_oauthbearer_have_the_versions_that_the_tests_use() -> None:
    found, broker = locked("oauthbearer"), locked("broker")

    assert "pyjwt" in found
    assert found.items() <= locked("test").items()
    assert all(version == broker.get(name, version) for name, version in found.items())


COMPOSE_CHECK = ["check_jsonschema", "--builtin-schema", "vendor.compose-spec"]
KUBERNETES_CHECK = ["kubernetes_validate", "--strict"]


def checked(validator: list[str], file: Path) -> tuple[int, str]:
    command = [sys.executable, "-m", *validator, str(file)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("file", "validator", "right", "wrong"),
    [
        (COMPOSE, COMPOSE_CHECK, "stop_grace_period:", "stop_grace_time:"),
        (COMPOSE_SECURED, COMPOSE_CHECK, "stop_grace_period:", "stop_grace_time:"),
        (KUBERNETES, KUBERNETES_CHECK, "readinessProbe:", "readynessProbe:"),
        (KUBERNETES_SECURED, KUBERNETES_CHECK, "readinessProbe:", "readynessProbe:"),
        (CRONJOB, KUBERNETES_CHECK, "podFailurePolicy:", "podFailingPolicy:"),
    ],
)
def test_manifest_validator_accepts_the_manifest_and_rejects_a_planted_fault(
    tmp_path: Path, file: Path, validator: list[str], right: str, wrong: str
) -> None:
    code, said = checked(validator, file)
    assert code == 0, said
    planted = tmp_path / file.name
    planted.write_text(file.read_text().replace(right, wrong))
    code, said = checked(validator, planted)
    assert code != 0, "the validator accepts a planted fault"
    assert wrong.rstrip(":") in said


def serves(words: list[str], environment: dict[str, str], data: Path) -> str:
    names = ("PATH", "HOME", "LANG")
    inherited = {name: os.environ[name] for name in names if name in os.environ}
    broker = subprocess.Popen(
        [sys.executable, "-m", "cli.main", "serve", "--data", str(data), *words],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=ROOT,
        env={**inherited, **environment},
    )  # fmt: skip
    try:
        assert broker.stdout is not None
        return broker.stdout.readline()
    finally:
        broker.kill()
        broker.wait(30)


def on_free_ports(text: str) -> str:
    return re.sub(r"0\.0\.0\.0:\d+", lambda _: f"127.0.0.1:{free_port()}", text)


def test_compose_file_starts_a_broker(tmp_path: Path) -> None:
    service = yaml.safe_load(COMPOSE.read_text())["services"]["muster"]
    words = [on_free_ports(word) for word in service["command"]]
    published = {port.rpartition(":")[2] for port in service["ports"]}

    said = serves([*words, "--http", "127.0.0.1:0"], service["environment"], tmp_path / "data")

    assert "accepts connections" in said
    assert published <= set(container("EXPOSE")[0].split())
    assert all(port.startswith("127.0.0.1:") for port in service["ports"]), (
        "published without TLS and password"
    )
    assert [volume.partition(":")[2] for volume in service["volumes"]] == container("VOLUME")


def test_kubernetes_manifest_starts_a_broker(tmp_path: Path) -> None:
    settings, service, stateful = yaml.safe_load_all(KUBERNETES.read_text())
    pod = stateful["spec"]["template"]["spec"]
    [broker] = pod["containers"]
    file = tmp_path / "server.properties"
    file.write_text(on_free_ports(settings["data"]["server.properties"]))
    environment = {
        entry["name"]: entry.get("value", "").replace("$(NAMESPACE)", "kafka")
        for entry in broker["env"]
    }

    words = ["--config", str(file), "--http", "127.0.0.1:0"]
    said = serves(words, environment, tmp_path / "data")

    assert "accepts connections" in said
    assert {row["verdict"] for row in rows_of(file)} == {HONOURED}
    assert broker["args"] == ["--config", "/etc/muster/server.properties"]
    assert service["spec"]["selector"] == stateful["spec"]["template"]["metadata"]["labels"]
    mounted = {mount["mountPath"] for mount in broker["volumeMounts"]}
    assert {*container("VOLUME"), "/etc/muster"} <= mounted
    ports = {str(port["containerPort"]) for port in broker["ports"]}
    assert ports == set(container("EXPOSE")[0].split())
    assert pod["securityContext"]["runAsUser"] == int(container("USER")[0].partition(":")[0])
