"""`muster dev cluster` starts three brokers, with or without a ZooKeeper, and reports a failed
start."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

from cli.dev.processes import Running
from cli.dev.reserved import reserved_directory
from cli.dev.trial import watch
from cli.errors import INTERRUPTED, REFUSED, TERMINATED, USAGE, CommandError
from tests import java
from tests.brokers import CHECKOUT, COMMAND, free_port
from tests.cli.running import run
from tests.waiting import until
from tests.zookeeper import MAIN


def free_ports(number: int) -> int:
    """Returns the first of ``number`` consecutive free ports."""
    while True:
        first = free_port()
        try:
            for port in range(first, first + number):
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", port))
        except (OSError, OverflowError):
            continue
        return first


def test_dev_cluster_advises_how_to_install_a_missing_zookeeper(tmp_path: Path) -> None:
    words = ["--dir", str(tmp_path / "dev"), "--zookeeper-home", str(tmp_path)]
    ran = run("dev", "cluster", "--port", str(free_ports(7)), *words)

    assert ran.code == REFUSED
    assert f"was not found in {tmp_path} or {tmp_path / 'bin'}" in ran.err
    assert "--zookeeper HOST:PORT" in ran.err
    assert "ZooKeeper needs Java" in ran.err
    assert not (tmp_path / "dev").exists()


def test_error_of_dev_cluster_names_a_port_in_use(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ran = run("dev", "cluster", "--port", str(port), "--dir", str(tmp_path / "dev"))

    assert ran.code == REFUSED
    assert f"can't use port {port}: Address already in use: choose another first port" in ran.err
    assert f"the cluster needs ports {port} to {port + 6}\n" in ran.err
    assert not (tmp_path / "dev").exists()


def test_dev_cluster_reports_the_last_output_line_of_an_exited_zookeeper(tmp_path: Path) -> None:
    script(tmp_path / "zkServer.sh", "echo java: not found; exit 127")
    words = ["--dir", str(tmp_path / "dev"), "--zookeeper-home", str(tmp_path)]
    ran = run("dev", "cluster", "--port", str(free_ports(7)), *words)

    assert ran.code == REFUSED
    assert "ZooKeeper exited with 127: java: not found" in ran.err


def test_dev_cluster_refuses_to_keep_data_without_a_zookeeper(tmp_path: Path) -> None:
    ran = run("dev", "cluster", "--data", str(tmp_path / "dev"), "--port", str(free_ports(7)))

    assert ran.code == REFUSED
    assert f"can't keep data in {tmp_path / 'dev'}: without a ZooKeeper" in ran.err
    assert "--zookeeper HOST:PORT" in ran.err
    assert not (tmp_path / "dev").exists()


def test_dev_cluster_refuses_a_running_zookeeper_together_with_the_home_of_another(
    tmp_path: Path,
) -> None:
    words = ["--zookeeper", "127.0.0.1:2181", "--zookeeper-home", str(tmp_path)]
    ran = run("dev", "cluster", "--dir", str(tmp_path / "dev"), *words)

    assert ran.code == USAGE
    assert "starts one: remove one of the two options" in ran.err
    assert not (tmp_path / "dev").exists()


def test_one_of_two_dev_clusters_that_start_together_on_one_port_fails_with_one_error(
    tmp_path: Path,
) -> None:
    port = free_ports(9)
    words = [*COMMAND, "dev", "cluster", "--dir", str(tmp_path)]
    both = [
        subprocess.Popen(
            [*words, "--port", str(each)],
            cwd=CHECKOUT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for each in (port, port + 2)  # some of the ports are the same
    ]
    try:
        until("one has failed", lambda: any(each.poll() is not None for each in both), 60)
        failed, started = sorted(both, key=lambda each: each.poll() is None)
        out, error = failed.communicate(timeout=60)
        assert started.stdout is not None
        assert started.stdout.readline().startswith("3 brokers at ")
        [child] = children(started.pid)
        assert error.count("\n") == 1
        assert (failed.returncode, out) == (REFUSED, "")
        assert re.search(r"can't use port \d+: another `muster dev cluster` uses it", error), error
    finally:
        for each in both:
            each.terminate()
            each.communicate(timeout=60)
    assert not is_there(child)


def children(process: int) -> list[int]:
    """Returns the processes that a process with one thread has started."""
    path = Path(f"/proc/{process}/task/{process}/children")
    return [int(each) for each in path.read_text().split()]


def test_dev_cluster_refuses_the_data_directory_of_another_before_it_starts_a_process(
    tmp_path: Path,
) -> None:
    script(tmp_path / "zkServer.sh", f"touch {tmp_path / 'started'}; exit 1")
    words = ["--dir", str(tmp_path / "dev"), "--zookeeper-home", str(tmp_path)]
    with reserved_directory(tmp_path / "dev"):
        ran = run("dev", "cluster", "--port", str(free_ports(7)), *words)

    assert ran.code == REFUSED
    assert ran.err == (
        f"muster: can't keep data in {tmp_path / 'dev'}: another `muster dev cluster` keeps its"
        " data there: stop that cluster, or choose another directory with --dir\n"
    )
    assert ran.out == ""
    assert not (tmp_path / "started").exists()


@pytest.mark.parametrize(
    ("ending", "code"),
    [
        (signal.SIGINT, INTERRUPTED),
        pytest.param(signal.SIGTERM, TERMINATED, marks=pytest.mark.campaign),
    ],
)
def test_dev_cluster_works_without_zookeeper_and_prints_requests_that_kill_and_start_a_broker(
    ending: signal.Signals, code: int, tmp_path: Path
) -> None:
    port = free_ports(7)
    with dev_cluster(ending, "--port", str(port), "--dir", str(tmp_path)) as dev:
        assert dev.stdout is not None
        told = [dev.stdout.readline() for _ in range(10)]
        bootstrap = ",".join(f"127.0.0.1:{each}" for each in range(port, port + 3))
        assert told[0].startswith(f"3 brokers at {bootstrap}, in process "), told
        assert "in memory" in told[1]
        works(bootstrap)
        kill, start = (re.search(r"'http://(.*?)(/.*)'", told[line]) for line in (6, 8))
        assert kill is not None
        assert start is not None
        assert post(kill)["brokers"][1]["is_running"] is False
        why = run("cluster", "why", "orders-1", "-b", bootstrap)
        assert "now: broker 2 is down" in why.out, why
        assert post(start)["brokers"][1]["is_registered"] is True
        [process] = re.findall(r"in process (\d+), ", told[0])
        dev.send_signal(ending)
        assert dev.wait(120) == code
    assert not is_there(int(process))
    assert os.listdir(tmp_path) == ["cluster.log"]


def post(found: re.Match[str]) -> Any:
    """Sends a POST request to the host and path that ``found`` has matched."""
    connection = HTTPConnection(found[1], timeout=60)
    connection.request("POST", found[2])
    with connection.getresponse() as response:
        return json.loads(response.read())


@contextmanager
def dev_cluster(ending: signal.Signals, *words: str) -> Iterator[subprocess.Popen[str]]:
    """Runs `muster dev cluster` with three brokers. The child process does not ignore the signal
    ``ending``."""
    dev = subprocess.Popen(
        [*COMMAND, "dev", "cluster", "--brokers", "3", *words],
        cwd=CHECKOUT,
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=partial(signal.signal, ending, signal.SIG_DFL),  # noqa: PLW1509 - nohup ignores it
    )
    try:
        yield dev
    finally:
        dev.terminate()
        dev.wait()


@pytest.mark.interop
@pytest.mark.parametrize(
    ("ending", "code"),
    [
        (signal.SIGINT, INTERRUPTED),
        (signal.SIGTERM, TERMINATED),
        (signal.SIGHUP, TERMINATED),
    ],
    ids=["Ctrl-C", "SIGTERM", "a terminal that is closed"],
)
def test_dev_cluster_runs_three_brokers_until_a_signal_stops_it(
    ending: signal.Signals, code: int, tmp_path: Path
) -> None:
    started = shlex.join(java.command(java.KAFKA_LAST_TO_SERVE_OLD_CLIENTS, MAIN))
    script(tmp_path / "bin" / "zookeeper-server-start.sh", f'exec {started} "$1"')
    port, folder = free_ports(7), tmp_path / "dev"
    words = ["--port", str(port), "--dir", str(folder), "--zookeeper-home", str(tmp_path)]
    with dev_cluster(ending, *words) as dev:
        assert dev.stdout is not None
        told = [dev.stdout.readline() for _ in range(10)]
        bootstrap = ",".join(f"127.0.0.1:{each}" for each in range(port, port + 3))
        assert told[0] == f"3 brokers at {bootstrap}, ZooKeeper at 127.0.0.1:{port + 3}\n", told
        last = f"the page of broker 3 is http://127.0.0.1:{port + 6}"
        assert f"http://127.0.0.1:{port + 4}, {last}" in told[8]
        processes = [int(each) for each in re.findall(r": process (\d+), ", "".join(told))]
        assert len(processes) == 4, told
        works(bootstrap)
        dev.send_signal(ending)
        assert dev.wait(120) == code
    assert [each for each in processes if is_there(each)] == []
    assert until("ZooKeeper's port is free", lambda: free_again(port + 3))


def works(bootstrap: str) -> None:
    """Checks that produced records can be consumed and that the cluster has no faults."""
    created = run("topics", "create", "orders", "-p", "6", "-b", bootstrap)
    assert created.code == 0, created.err
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "log_level": 0})
    for number in range(60):
        producer.produce("orders", str(number), partition=number % 6)
    assert producer.flush(60) == 0
    group = {"group.id": "all", "auto.offset.reset": "earliest", "log_level": 0}
    consumer = Consumer({"bootstrap.servers": bootstrap, **group})
    read = set[int]()
    try:
        consumer.subscribe(["orders"])
        until("all is read", lambda: read.update(polled(consumer)) or len(read) == 60, 60)
    finally:
        consumer.close()
    view = run("cluster", "describe", "--json", "-b", bootstrap).json
    assert [row["broker"] for row in view["brokers"]] == [1, 2, 3]
    checked = run("cluster", "check", "-b", bootstrap)
    assert (checked.code, "3 brokers" in checked.out) == (0, True), checked


def polled(consumer: Consumer) -> list[int]:
    """Polls once, for at most 1 s, and returns the values of the records."""
    messages = consumer.consume(60, 1.0)
    return [int(each.value() or b"") for each in messages if each.error() is None]


def is_there(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def script(path: Path, line: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{line}\n")
    path.chmod(0o755)


def free_again(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


@pytest.mark.parametrize(
    ("ends", "warning"),
    [
        ("exit 0", "muster: broker 1 was stopped\n"),
        ("exit 3", "muster: broker 1 exited with 3; see "),
    ],
)
def test_dev_cluster_fails_only_if_a_process_has_failed(
    tmp_path: Path, ends: str, warning: str, capsys: pytest.CaptureFixture[str]
) -> None:
    process = Running("broker 1", ["sh", "-c", ends], tmp_path / "log")
    with nullcontext() if ends == "exit 0" else pytest.raises(CommandError, match="have exited"):
        watch([process])
    assert capsys.readouterr().err.startswith(warning)


def test_process_ends_when_the_command_that_started_it_is_killed(tmp_path: Path) -> None:
    code = (
        "import sys, time; from pathlib import Path; from cli.dev.processes import Running;"
        " print(Running('broker 1', ['sleep', '60'], Path(sys.argv[1])).pid, flush=True);"
        " time.sleep(60)"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "log")]
    with subprocess.Popen(command, cwd=CHECKOUT, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        parent.kill()
    until("the process has ended", lambda: not Path(f"/proc/{pid}").exists() or _is_zombie(pid))


def _is_zombie(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
