"""Tests of the recipes in docs/use/pipeline-commands.md. Each command runs as its scheduler would
run it."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from tests.absent import program
from tests.brokers import CHECKOUT, Broker
from tests.cli.running import run
from tests.pipeline.archives import is_the_log
from tests.pipeline.many_commits import commit, prepare

pytestmark = [pytest.mark.pipeline, pytest.mark.timeout(300), pytest.mark.proves("pipeline 6")]

HISTORY = CHECKOUT / "deploy" / "history"
DOCS = (CHECKOUT / "docs" / "use" / "pipeline-commands.md").read_text()
NOBODY = "127.0.0.1:1"


@pytest.fixture
def served(brokers: Callable[..., Broker]) -> Broker:
    broker = brokers({"offsets.topic.num.partitions": "3"})
    prepare(broker)
    commit(broker, range(2))
    return broker


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Returns a value of PATH with which `muster` runs the code of this checkout."""
    folder = tmp_path / "bin"
    folder.mkdir()
    command = folder / "muster"
    command.write_text(f'#!/bin/sh\ncd {CHECKOUT}\nexec {sys.executable} -m cli.main "$@"\n')
    command.chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"


def ran(command: list[str], environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, env=dict(environment), capture_output=True, text=True, timeout=120, check=False
    )


def test_cron_line_prints_output_only_when_the_job_fails(
    served: Broker, tmp_path: Path, path: str
) -> None:
    settings, times = entry_of("muster-history.cron")
    assert (times[:5], times[5]) == (["17", "3", "*", "*", "*"], "muster")
    out = tmp_path / "out"
    out.mkdir()
    environment = {**settings, "PATH": path, "OUT": str(out), "SOURCE": served.bootstrap}
    command = ["/bin/sh", "-c", times[6]]

    done = ran(command, environment)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    is_the_log(served, out)
    assert "The report is" in (out / "last-run.log").read_text()

    away = ran(command, {**environment, "SOURCE": NOBODY})
    assert away.stdout.startswith("muster-history: exit code 3\nmuster: no broker answers at")

    locked = [program("flock", "util-linux"), str(out / ".cron.lock"), *command]
    assert ran(locked, environment).stdout.startswith("muster-history: exit code 75\n")


def test_cron_line_replaces_the_lag_file_on_each_run(
    served: Broker, tmp_path: Path, path: str
) -> None:
    settings, times = entry_of("muster-lag.cron")
    assert (times[:5], times[5]) == (["*/5", "*", "*", "*", "*"], "muster")
    out, file = tmp_path / "out", tmp_path / "muster-lag.prom"
    out.mkdir()
    environment = {**settings, "PATH": path, "OUT": str(out), "SOURCE": served.bootstrap}
    environment["TEXTFILE"] = str(file)
    command = ["/bin/sh", "-c", times[6]]

    written = set()
    for _ in range(2):
        done = ran(command, environment)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        written.add(file.read_text())
    assert len(written) == 2, "the time of the answers is another"
    away = ran(command, {**environment, "SOURCE": NOBODY})
    assert away.stdout.startswith("muster-lag: exit code 3\nmuster: no broker answers at")
    assert file.read_text() in written


def entry_of(name: str) -> tuple[dict[str, str], list[str]]:
    """Returns the environment settings of a cron file and the fields of its only entry: five time
    fields, the user, and the command."""
    lines = (HISTORY / name).read_text().splitlines()
    settings = dict(line.split("=", 1) for line in lines if re.match(r"[A-Z]+=", line))
    [entry] = [line for line in lines if re.match(r"[\d*]", line)]
    assert "%" not in entry, "cron treats % as the end of the line"
    return settings, entry.split(maxsplit=6)


def loaded(file: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[dict[str, Any], dict[str, Any]]:
    """Runs a DAG file with stubs of Airflow's classes. Returns the arguments of DAG and of
    BashOperator."""
    dags: list[dict[str, Any]] = []
    tasks: list[dict[str, Any]] = []

    class Dag:
        def __init__(self, **named: Any) -> None:
            dags.append(named)

        def __enter__(self) -> Dag:
            return self

        def __exit__(self, *_: object) -> None:
            pass

    def operator(**named: Any) -> None:
        tasks.append(named)

    for name, has in (
        ("airflow", {}),
        ("airflow.sdk", {"DAG": Dag}),
        ("airflow.providers", {}),
        ("airflow.providers.standard", {}),
        ("airflow.providers.standard.operators", {}),
        ("airflow.providers.standard.operators.bash", {"BashOperator": operator}),
    ):
        module = ModuleType(name)
        vars(module).update(has)
        monkeypatch.setitem(sys.modules, name, module)
    exec(compile(file.read_text(), str(file), "exec"), {"__name__": "dag"})
    [dag], [task] = dags, tasks
    return dag, task


def test_airflow_task_has_the_exit_code_of_the_command(
    served: Broker, tmp_path: Path, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = HISTORY / "airflow_history.py"
    imports = {
        (node.module, name.name)
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.ImportFrom)
        for name in node.names
    }
    assert ("airflow.sdk", "DAG") in imports
    assert ("airflow.providers.standard.operators.bash", "BashOperator") in imports

    dag, task = loaded(file, monkeypatch)
    assert (dag["max_active_runs"], dag["catchup"]) == (1, False)
    assert set(dag) == {"dag_id", "schedule", "start_date", "catchup", "max_active_runs", "tags"}
    assert set(task) == {
        "task_id", "bash_command", "env", "append_env", "retries", "retry_delay",
        "execution_timeout",
    }  # fmt: skip
    out = tmp_path / "out"
    environment = {**os.environ, "PATH": path, **task["env"], "MUSTER_OUT": str(out)}
    command = ["bash", "-c", task["bash_command"]]
    done = ran(command, {**environment, "MUSTER_SOURCE": served.bootstrap})
    assert done.returncode == 0, done.stderr
    is_the_log(served, out)
    assert ran(command, {**environment, "MUSTER_SOURCE": NOBODY}).returncode == 3


def test_cronjob_container_has_the_exit_code_of_the_command(
    served: Broker, tmp_path: Path, path: str
) -> None:
    claim, job = yaml.safe_load_all((HISTORY / "cronjob.yaml").read_text())
    spec = job["spec"]["jobTemplate"]["spec"]
    pod = spec["template"]["spec"]
    [container] = pod["containers"]
    assert (job["spec"]["concurrencyPolicy"], pod["restartPolicy"]) == ("Forbid", "Never")
    [rule] = spec["podFailurePolicy"]["rules"]
    assert rule["action"] == "FailJob"
    assert rule["onExitCodes"]["containerName"] == container["name"]
    assert 3 not in rule["onExitCodes"]["values"], "a broker that is away is tried again"
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    claims = {volume["name"]: volume.get("persistentVolumeClaim") for volume in pod["volumes"]}
    assert claims["history"] == {"claimName": claim["metadata"]["name"]}
    assert mounts["history"] in container["args"]
    built = (CHECKOUT / "deploy" / "Containerfile").read_text()
    assert "ARG PACKAGES=broker" in built, "the command in the file's head builds the image"

    out = tmp_path / "out"
    words = [*container["command"], *container["args"]]
    command = [str(out) if word == mounts["history"] else word for word in words]
    environment = {entry["name"]: entry["value"] for entry in container["env"]}
    environment = {**os.environ, **environment, "PATH": path}
    done = ran(command, {**environment, "MUSTER_SOURCE": served.bootstrap})
    assert done.returncode == 0, done.stderr
    is_the_log(served, out)
    assert ran(command, {**environment, "MUSTER_SOURCE": NOBODY}).returncode == 3


def test_exit_code_is_4_when_damage_is_new_and_0_in_the_next_run(
    served: Broker, tmp_path: Path
) -> None:
    """The source is a copy of the log with one changed byte."""
    served.stop()
    copy = tmp_path / "copy"
    shutil.copytree(served.data, copy)
    log = max(copy.glob("__consumer_offsets-*/*.log"), key=lambda file: file.stat().st_size)
    content = bytearray(log.read_bytes())
    content[len(content) // 3] ^= 0xFF
    log.write_bytes(content)
    words = ["pipeline", "all", "--incremental", "--fail-on-damage", "--source", str(copy)]
    first = run(*words, "--out", str(tmp_path / "out"))
    assert first.code == 4, first.err
    assert "could not be read: see table quarantine" in first.err
    assert list((tmp_path / "out" / "quarantine").glob("*.parquet"))
    assert run(*words, "--out", str(tmp_path / "out")).code == 0


def test_recipes_page_names_every_file_and_exit_code() -> None:
    for file in HISTORY.iterdir():
        assert f"../deploy/history/{file.name}" in DOCS
    cron = (HISTORY / "muster-history.cron").read_text()
    assert "-E 75" in cron
    for code in (0, 1, 2, 3, 4, 5, 75):
        assert f"| {code} |" in DOCS
