"""Each secured deployment starts a broker that accepts only the logins of its administrator.

The test does the work of a container runtime. It appends the arguments to the ENTRYPOINT, sets
environment variables, replaces the folders of the container by local folders, and uses free ports.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from cli.config.check import HONOURED, rows_of
from security.sasl.client_side import SCRAM_MODULE
from tests.brokers import free_port
from tests.certificates import Authority
from tests.cli.running import run
from tests.house.test_deploy import (
    COMPOSE,
    COMPOSE_SECURED,
    DEPLOY,
    KUBERNETES,
    KUBERNETES_SECURED,
    ROOT,
    container,
    on_free_ports,
)
from tests.tiers import sampled
from tests.waiting import until

SETTINGS = (DEPLOY / "secured.properties").read_text()
PASSWORD, TOKEN = "hers, and nobody else's", "the-token-of-Prometheus"
GIVEN = {"MUSTER_HOST": "broker.example", "MUSTER_HTTP_METRICS_TOKEN": TOKEN}
"""The environment variables that an operator sets for compose-secured.yaml."""


class Way(NamedTuple):
    """One way to deploy a secured broker: its arguments, environment variables and settings, the
    command that creates the administrator, and the health check."""

    words: list[str]
    """The arguments that the container runtime appends to the ENTRYPOINT."""
    environment: dict[str, str]
    settings: str
    adds_admin: list[str]
    """The command that creates the administrator."""
    health: str
    """The URL that the health check requests."""


def by_docker() -> Way:
    """Reads the `docker run` commands of docs/operate/operating.md."""
    page = (ROOT / "docs" / "operate" / "operating.md").read_text().replace("\\\n", "")
    [adds] = re.findall(r"^    docker run (.* users add .*)$", page, re.MULTILINE)
    [runs] = re.findall(r"^    docker run (.*secured\.properties)$", page, re.MULTILINE)
    options, words = split(shlex.split(runs))
    pairs = dict(word.split("=", 1) for word in options if re.match(r"[A-Z_]+=", word))
    assert {"muster:/var/lib/muster", "./secured:/etc/muster:ro"} <= set(options)
    environment = {name: pairs[name].replace("...", TOKEN) for name in pairs}
    return Way(words, environment, SETTINGS, ["muster", *split(shlex.split(adds))[1]],
               environment["HEALTH_URL"])  # fmt: skip


def split(words: list[str]) -> tuple[list[str], list[str]]:
    """Splits the words of a `docker run` command at the image name. Returns the words before it and
    the words after it."""
    at = len(words) - words[::-1].index("muster") - 1
    return words[:at], words[at + 1 :]


def by_compose() -> Way:
    text = COMPOSE_SECURED.read_text()
    service = yaml.safe_load(text)["services"]["muster"]
    [adds] = re.findall(r"^#.* muster (muster users add .*)$", text, re.MULTILINE)
    environment = {
        name: re.sub(r"\$\{(\w+):\?[^}]*\}", lambda found: GIVEN[found[1]], value)
        for name, value in service["environment"].items()
    }
    return Way(service["command"], environment, SETTINGS, shlex.split(adds),
               environment["HEALTH_URL"])  # fmt: skip


def by_kubernetes() -> Way:
    settings, _, stateful = yaml.safe_load_all(KUBERNETES_SECURED.read_text())
    pod = stateful["spec"]["template"]["spec"]
    [broker], [admin] = pod["containers"], pod["initContainers"]
    environment = {
        each["name"]: each["value"].replace("$(NAMESPACE)", "kafka") if "value" in each else TOKEN
        for each in broker["env"]
    }
    [probe] = {json.dumps(broker[f"{each}Probe"]["httpGet"]) for each in ("liveness", "startup")}
    asked = json.loads(probe)
    ports = {each["name"]: each["containerPort"] for each in broker["ports"]}
    health = f"{asked['scheme'].lower()}://127.0.0.1:{ports[asked['port']]}{asked['path']}"
    return Way(broker["args"], environment, settings["data"]["secured.properties"],
               [*admin["command"], *admin["args"]], health)  # fmt: skip


class Placed:
    """The files of a container in local folders. `of` replaces the paths of the container in a text
    by local paths."""

    def __init__(self, folder: Path, settings: str) -> None:
        self._folder = folder
        self.etc = folder / "etc"
        passwords = folder / "passwords"
        for each in (self.etc, passwords, folder / "data"):
            each.mkdir()
        (passwords / "admin").write_text(PASSWORD)
        self.authority = Authority(folder)
        (self.etc / "broker.pem").write_bytes(self.authority.issue("broker").pem.read_bytes())
        self.file = self.etc / "secured.properties"
        self.file.write_text(self.of(on_free_ports(settings)))

    def of(self, text: str) -> str:
        for theirs, ours in (
            ("/etc/muster", self.etc),
            ("/var/lib/muster", self._folder / "data"),
            ("/run/passwords", self._folder / "passwords"),
        ):
            text = text.replace(theirs, str(ours))
        return text


def started(command: list[str], more: Mapping[str, str], **pipes: Any) -> subprocess.Popen[str]:
    """Starts a command. `muster` and `python` are on its PATH, as in the container."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {"PATH": path, "HOME": os.environ["HOME"], **more}
    return subprocess.Popen(command, env=environment, cwd=ROOT, text=True, **pipes)


@pytest.mark.parametrize("way", sampled([by_docker, by_compose, by_kubernetes], (by_docker,)))
def test_each_secured_deployment_accepts_its_administrator(
    way: Callable[[], Way], tmp_path: Path
) -> None:
    found = way()
    placed = Placed(tmp_path, found.settings)
    assert {row["verdict"] for row in rows_of(placed.file)} == {HONOURED}
    for _ in range(2 if way is by_kubernetes else 1):  # each start of a pod adds the user again
        words = [placed.of(word) for word in found.adds_admin]
        adding = started(words, {}, stdin=subprocess.PIPE, stderr=subprocess.PIPE)
        _, said = adding.communicate(PASSWORD + "\n", 60)
        assert adding.returncode == 0, said

    http = f"127.0.0.1:{free_port()}"
    entrypoint = [
        word.replace("0.0.0.0:9644", http) for word in json.loads(container("ENTRYPOINT")[0])
    ]
    rows = dict(line.split("=", 1) for line in placed.file.read_text().split("\n") if "=" in line)
    at = rows["listeners"]
    environment = {**found.environment, "MUSTER_ADVERTISED_LISTENERS": at}
    assert re.fullmatch(
        r"SASL_SSL://[a-z.]+:9092", found.environment["MUSTER_ADVERTISED_LISTENERS"]
    )
    assert http in entrypoint
    command = [placed.of(word) for word in (*entrypoint, *found.words)]
    silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    log = tmp_path / "broker.log"
    with log.open("w") as told:
        broker = started(command, environment, stdout=told, stderr=subprocess.STDOUT)
    try:
        health = {"HEALTH_URL": found.health.replace("127.0.0.1:9644", http)}
        check = json.loads(container("HEALTHCHECK")[0].partition(" CMD ")[2])
        until(
            "the broker is healthy, or has ended",
            lambda: started(check, health, **silent).wait(30) == 0 or broker.poll() is not None,
        )
        assert broker.poll() is None, log.read_text()
        check_logins(placed, at.partition("://")[2])
    finally:
        broker.terminate()
        broker.wait(30)


def check_logins(placed: Placed, bootstrap: str) -> None:
    """Checks that the Kafka listener and the HTTP listener accept PASSWORD and reject another
    password."""
    for password, code in ((PASSWORD, 0), ("wrong", 1)):
        client = placed.etc / "client.properties"
        client.write_text(
            "security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-512\n"
            f"ssl.truststore.location={placed.authority.certificate}\n"
            f'sasl.jaas.config={SCRAM_MODULE} required username="admin" password="{password}";\n'
        )
        as_her = ("-b", bootstrap, "--command-config", str(client))
        listed = run("topics", "list", *as_her)
        assert listed.code == code, listed.err
        told = run("groups", "why", "none", *as_her).err
        assert ("group none does not exist" in told) == (code == 0), "HTTP accepts only PASSWORD"


def settings_of(text: str) -> list[str]:
    return sorted(line for line in text.splitlines() if line and not line.startswith("#"))


def test_kubernetes_manifest_has_the_settings_of_secured_properties() -> None:
    assert settings_of(by_kubernetes().settings) == settings_of(SETTINGS)


def test_secured_manifests_differ_from_unsecured_manifests_only_in_security() -> None:
    opened, secured = (yaml.safe_load(each.read_text()) for each in (COMPOSE, COMPOSE_SECURED))
    one, other = opened["services"]["muster"], secured["services"]["muster"]
    assert {key for key in one if one[key] != other[key]} == {
        "command", "environment", "ports", "volumes",
    }  # fmt: skip
    assert one.keys() == other.keys()
    assert set(one["volumes"]) < set(other["volumes"])

    pods = []
    for file in (KUBERNETES, KUBERNETES_SECURED):
        _, service, stateful = yaml.safe_load_all(file.read_text())
        pod = stateful["spec"]["template"].pop("spec")
        pods.append((pod, pod["containers"][0], service, stateful))
    (one, broker, service, stateful), (other, theirs, their_service, their_stateful) = pods
    assert service == their_service
    assert {key for key in one if one[key] != other[key]} == {"containers", "volumes"}
    assert other.keys() - one.keys() == {"initContainers"}
    assert {key for key in broker if broker[key] != theirs[key]} == {
        "args", "env", "livenessProbe", "readinessProbe", "startupProbe",
    }  # fmt: skip
    stateful["spec"]["template"]["metadata"]["annotations"]["prometheus.io/scheme"] = "https"
    assert stateful == their_stateful
    [first] = other["initContainers"]
    assert first["securityContext"] == theirs["securityContext"]
    passwords = {mount["name"] for mount in first["volumeMounts"]} - {
        mount["name"] for mount in theirs["volumeMounts"]
    }
    assert passwords == {"passwords"}, "only the init container mounts the passwords"
