"""`muster serve` prints one line when it is ready, or the reason why it does not start."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from cli.version import VERSION
from musterd.rooms import ROOMS
from protocol.compiled import IN_USE
from tests.broker.topic_calls import create_topic, fetch, metadata, produce
from tests.brokers import Broker, free_port
from tests.waiting import until
from tests.wire import Wire, batch, values_of

ROOT = Path(__file__).parents[2]


def refused(*words: str, environment: dict[str, str] | None = None) -> tuple[int, str]:
    """Runs `muster serve`, checks that it fails, and returns exit code and standard error."""
    done = subprocess.run(
        [sys.executable, "-m", "cli.main", "serve", "--http", "off", *words],
        cwd=ROOT,
        env={**os.environ, **(environment or {})},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.stdout == ""
    return done.returncode, done.stderr


def assert_one_sentence(stderr: str) -> None:
    assert stderr.count("\n") == 1, stderr
    assert stderr.startswith("muster serve: ")
    assert "Traceback" not in stderr


def test_ready_line_has_the_addresses_of_the_broker(broker: Broker) -> None:
    ready = [line for line in broker.lines() if "accepts connections" in line]

    assert len(ready) == 1
    assert re.fullmatch(
        rf"muster {re.escape(VERSION)} accepts connections on 127\.0\.0\.1:{broker.port},"
        rf" data in \S+, cluster [\w-]{{22}}, codecs: {re.escape(IN_USE)}\n",
        ready[0],
    )


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_stops_the_broker_cleanly(
    brokers: Callable[..., Broker], name: str, number: signal.Signals
) -> None:
    broker = brokers()
    with Wire(broker.port) as wire:
        create_topic(wire, name)
        produce(wire, name, batch(b"kept"))

    assert broker.process is not None
    broker.process.send_signal(number)

    assert broker.process.wait(20) == 0
    assert (broker.data / ".kafka_cleanshutdown").exists()
    recovery_points = (broker.data / "recovery-point-offset-checkpoint").read_text()
    assert f"{name} 0 1\n" in recovery_points


@pytest.mark.campaign
def test_topics_and_records_survive_a_stop_and_a_kill(
    brokers: Callable[..., Broker], name: str
) -> None:
    broker = brokers()
    with Wire(broker.port) as wire:
        topic_id = create_topic(wire, name, 2, configs={"retention.ms": "-1"})["topic_id"]
        produce(wire, name, batch(b"kept"), partition=1)
        cluster_id = metadata(wire)["cluster_id"]

    for end in (broker.stop, broker.kill):
        end()
        broker.start()
        with Wire(broker.port) as wire:
            answer = metadata(wire, name, create=False)
            assert answer["cluster_id"] == cluster_id
            assert answer["topics"][0]["topic_id"] == topic_id
            assert values_of(fetch(wire, name, partition=1)["records"]) == [b"kept"]


def test_start_fails_on_a_data_directory_in_use(broker: Broker) -> None:
    code, stderr = refused("--listen", "127.0.0.1:0", "--data", str(broker.data))

    assert code == 1
    assert_one_sentence(stderr)
    assert "in use by another process" in stderr


def test_start_that_fails_because_a_port_is_in_use_creates_no_files(
    broker: Broker, tmp_path: Path
) -> None:
    code, stderr = refused("--listen", broker.bootstrap, "--data", str(tmp_path / "d"))

    assert code == 1
    assert_one_sentence(stderr)
    assert f"can't listen on {broker.bootstrap}: Address already in use; free the address" in stderr
    assert not (tmp_path / "d").exists()


def test_start_fails_and_names_the_listener_address_in_use(broker: Broker, tmp_path: Path) -> None:
    listeners = f"listeners=IN://127.0.0.1:{free_port()},OUT://{broker.bootstrap}"
    protocols = "listener.security.protocol.map=IN:PLAINTEXT,OUT:PLAINTEXT"

    code, stderr = refused(
        "--set", listeners, "--set", protocols, "--set", f"log.dirs={tmp_path / 'd'}"
    )

    assert code == 1
    assert_one_sentence(stderr)
    assert f"can't listen on {broker.bootstrap}" in stderr


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (["--set", "num.partitions=none"], 1, "num.partitions=none: it must be a whole number"),
        (["--set", "num.partitions"], 2, "--set num.partitions: write it as"),
        (["--listen", "here"], 2, "--listen: 'here' is not HOST:PORT"),
        (["--config", "/no/such/file"], 2, "--config /no/such/file can't be read"),
        (["--no-such-option"], 2, "unrecognized arguments: --no-such-option"),
    ],
)
def test_start_fails_on_an_invalid_setting_or_option(
    tmp_path: Path, words: list[str], code: int, sentence: str
) -> None:
    got, stderr = refused("--data", str(tmp_path / "d"), *words)

    assert got == code
    assert_one_sentence(stderr)
    assert sentence in stderr


def test_start_fails_when_the_data_directory_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    code, stderr = refused("--listen", "127.0.0.1:0", "--data", str(tmp_path / "file"))

    assert code == 1
    assert_one_sentence(stderr)
    assert f"{tmp_path / 'file'} can't be used" in stderr


@pytest.mark.parametrize("directory", ["/dev/null/d", "/proc/muster"])
def test_start_fails_when_the_data_directory_cannot_be_created(directory: str) -> None:
    code, stderr = refused("--listen", "127.0.0.1:0", "--data", directory)

    assert code == 1
    assert_one_sentence(stderr)
    assert f"{directory} can't be used" in stderr


def test_start_fails_on_a_data_directory_of_another_broker(brokers: Callable[..., Broker]) -> None:
    broker = brokers()
    broker.stop()

    code, stderr = refused(
        "--listen", "127.0.0.1:0", "--data", str(broker.data), "--set", "broker.id=9"
    )

    assert code == 1
    assert_one_sentence(stderr)
    assert "belongs to broker 1, but this is broker 9" in stderr


def test_start_fails_with_a_damaged_topic_list(brokers: Callable[..., Broker]) -> None:
    broker = brokers()
    with Wire(broker.port) as wire:
        create_topic(wire, "t")
    broker.stop()
    (broker.data / "topics.json").write_text('{"version": 1, "topics": [')

    code, stderr = refused("--listen", "127.0.0.1:0", "--data", str(broker.data))

    assert code == 1
    assert_one_sentence(stderr)
    assert "topics.json is damaged" in stderr


@pytest.mark.campaign
def test_start_without_the_truncate_setting_fails_when_flushed_records_are_damaged(
    brokers: Callable[..., Broker],
) -> None:
    broker = brokers()
    with Wire(broker.port) as wire:
        create_topic(wire, "t")
        for _ in range(3):
            produce(wire, "t")
    broker.stop()
    segment = broker.data / "t-0" / "00000000000000000000.log"
    data = segment.read_bytes()
    segment.write_bytes(data[:-3])
    words = ("--listen", "127.0.0.1:0", "--data", str(broker.data))

    code, stderr = refused(*words)

    assert code == 1
    assert_one_sentence(stderr)
    assert f"{segment} is damaged at byte {len(data) // 3 * 2}" in stderr
    setting = re.findall(r"log\.recovery\.truncate=\S+", stderr)[0]
    assert setting == "log.recovery.truncate=t-0"

    broker.settings["log.recovery.truncate"] = "t-0"
    broker.start()
    told = "".join(broker.lines())
    assert "invalid records at the end of the log truncated" in told
    assert "remove log.recovery.truncate from the configuration" in told
    with Wire(broker.port) as wire:
        assert len(values_of(fetch(wire, "t")["records"])) == 2


def test_unknown_settings_are_logged_in_one_warning(
    brokers: Callable[..., Broker],
) -> None:
    broker = brokers({"no.such": "1", "nor.this": "2", "num.io.threads": "4"})

    warnings = [line for line in broker.lines() if "unknown settings ignored" in line]
    assert len(warnings) == 1
    assert "no.such, nor.this" in warnings[0]
    assert "num.io.threads" not in "".join(broker.lines())


def test_ineffective_setting_is_logged_in_a_separate_warning(
    brokers: Callable[..., Broker],
) -> None:
    broker = brokers({"process.roles": "controller"})

    (warning,) = [line for line in broker.lines() if "setting not followed" in line]
    assert "setting=process.roles" in warning
    assert "this broker runs standalone" in warning


def test_start_fails_with_the_reason_when_zookeeper_is_unreachable(tmp_path: Path) -> None:
    nowhere = ("--set", "zookeeper.connect=127.0.0.1:1")
    soon = ("--set", "zookeeper.connection.timeout.ms=200")

    code, stderr = refused("--listen", "127.0.0.1:0", "--data", str(tmp_path), *nowhere, *soon)

    assert code == 1
    assert "ZooKeeper at 127.0.0.1:1 did not answer within 200 ms" in stderr


def test_start_prints_each_invalid_setting_on_its_own_line(tmp_path: Path) -> None:
    faults = ("--set", "num.partitions=0", "--set", "log.dirs=/a,/b")

    code, stderr = refused("--listen", "127.0.0.1:0", *faults)

    assert code == 1
    assert stderr.splitlines() == [
        "muster serve: 2 problems in the settings:",
        "  num.partitions=0: it must be at least 1",
        "  log.dirs has 2 directories, but Muster has one data directory: name only one",
    ]


def started(*words: str, cwd: Path = ROOT) -> tuple[subprocess.Popen[str], str]:
    """Starts `muster serve`, and returns the process and its ready line."""
    process = subprocess.Popen(
        [sys.executable, "-m", "cli.main", "serve", *words],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    return process, process.stdout.readline()


def ended(process: subprocess.Popen[str]) -> str:
    """Stops the process cleanly and returns its output after the ready line."""
    process.terminate()
    output, _ = process.communicate(timeout=20)
    assert process.returncode == 0, output
    return output


def test_metadata_of_each_listener_has_its_own_addresses(tmp_path: Path) -> None:
    inside, outside = free_port(), free_port()
    file = tmp_path / "server.properties"
    file.write_text(
        f"listeners=IN://127.0.0.1:{inside},OUT://127.0.0.1:{outside}\n"
        "listener.security.protocol.map=IN:PLAINTEXT,OUT:PLAINTEXT\n"
        f"advertised.listeners=IN://127.0.0.1:{inside},OUT://kafka.example:19092\n"
        f"log.dirs={tmp_path / 'd'}\nhttp.listener=off\n"
    )

    process, line = started("--config", str(file))
    try:
        assert f"127.0.0.1:{inside}, 127.0.0.1:{outside}" in line
        with Wire(inside) as wire:
            (node,) = metadata(wire)["brokers"]
            assert (node["host"], node["port"]) == ("127.0.0.1", inside)
        with Wire(outside) as wire:
            (node,) = metadata(wire)["brokers"]
            assert (node["host"], node["port"]) == ("kafka.example", 19092)
            (found,) = wire.call("FindCoordinator", 4, {"key_type": 0, "coordinator_keys": ["g"]})[
                "coordinators"
            ]
            assert (found["host"], found["port"]) == ("kafka.example", 19092)
    finally:
        ended(process)


def has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


@pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6 loopback address")
def test_broker_serves_ipv6(tmp_path: Path) -> None:
    process, line = started("--listen", "[::1]:0", "--data", str(tmp_path / "d"), "--http", "off")
    try:
        found = re.search(r"on \[::1\]:(\d+),", line)
        assert found, line
        with Wire(int(found[1]), host="::1") as wire:
            (node,) = metadata(wire)["brokers"]
            assert (node["host"], node["port"]) == ("::1", int(found[1]))
    finally:
        ended(process)


def test_wildcard_address_is_not_advertised(tmp_path: Path) -> None:
    words = ("--listen", "0.0.0.0:0", "--data", str(tmp_path / "d"), "--http", "off")
    process, line = started(*words)
    try:
        found = re.search(r"0\.0\.0\.0:(\d+)", line)
        assert found, line
        with Wire(int(found[1])) as wire:
            assert metadata(wire)["brokers"][0]["host"] == socket.getfqdn()
    finally:
        ended(process)


def test_start_fails_with_one_error_when_the_http_port_is_in_use(
    tmp_path: Path,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        where = f"127.0.0.1:{taken.getsockname()[1]}"
        words = ("--listen", "127.0.0.1:0", "--http", where, "--data", str(tmp_path / "d"))

        code, stderr = refused(*words)

    assert code == 1
    assert_one_sentence(stderr)
    assert f"can't listen on {where}: Address already in use; choose another" in stderr
    assert not (tmp_path / "d").exists()


def test_printed_addresses_accept_connections(tmp_path: Path) -> None:
    words = ("--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--data", str(tmp_path / "d"))
    process, line = started(*words)
    try:
        assert process.stdout is not None
        lines = line + process.stdout.readline()
        ports = re.findall(r"127\.0\.0\.1:(\d+)", lines)
        assert len(ports) == 2, lines
        for port in ports:
            socket.create_connection(("127.0.0.1", int(port)), 5).close()
        with urllib.request.urlopen(f"http://127.0.0.1:{ports[1]}/healthz", timeout=20) as answer:
            assert answer.status == 200
    finally:
        ended(process)


HEAVY = (
    "rich",
    "typer",
    "uvicorn",
    "starlette",
    "prometheus_client",
    "pydantic",
    "pydantic_core",
    "re2",
)
"""Modules that take long to import and that the broker does not need before it listens."""
OF_A_CLUSTER = (
    "broker.cluster",
    "broker.quotas.replication_quota",
    "broker.topics.replicas.replica",
    "controller",
    "kazoo",
    "replication",
)
"""Packages and modules that a standalone broker does not need."""


MODULES_MAX = 640
"""The maximum number of Muster modules that are loaded before the broker listens. Each module takes
0.1 ms."""
COMPILED_MAX = 1042
"""The maximum number of pieces of source code, given as strings, that Python compiles before the
broker listens. Most of them come from dataclasses. Each takes 0.02 to 0.2 ms."""
UNTIL_IT_LISTENS = """
import json, os, sys
compiled = 0
def hear(event, what):
    global compiled
    compiled += event == "compile" and str(what[1]).startswith("<")
sys.addaudithook(hear)
free = "127.0.0.1:0"
sys.argv[:] = ["muster", "serve", "--listen", free, "--http", free, "--data", sys.argv[1]]
import cli.serve
cli.serve._import_structlog()
from broker.net.server import Server
async def told(*words):
    os.write(1, json.dumps([compiled, *sys.modules]).encode())
    os._exit(0)
Server.accept = told
from cli.main import main
main()
"""


def test_start_imports_few_modules_and_compiles_few_strings_before_it_listens(
    tmp_path: Path,
) -> None:
    """The test counts modules and does not measure time, because the time depends on the load of
    the machine."""
    command = [sys.executable, "-c", UNTIL_IT_LISTENS, str(tmp_path / "d")]
    compiled, *modules = json.loads(subprocess.check_output(command, cwd=ROOT, timeout=60))
    there = {".".join(name.split(".")[:n]) for name in modules for n in (1, 2, 3)}
    assert sorted(there & {*HEAVY, *OF_A_CLUSTER}) == []
    assert len([name for name in modules if name.partition(".")[0] in ROOMS]) <= MODULES_MAX
    assert compiled <= COMPILED_MAX


def test_interrupted_deletion_of_topics_completes_after_a_crash(
    brokers: Callable[..., Broker], name: str
) -> None:
    broker = brokers({"log.segment.delete.delay.ms": "600000"})
    with Wire(broker.port) as wire:
        create_topic(wire, name, 2)
        wire.call("DeleteTopics", 5, {"topic_names": [name], "timeout_ms": 10_000})
    assert len(list(broker.data.glob(f"{name}-*-delete"))) == 2

    broker.kill()
    broker.start()

    until("the directories are gone", lambda: not list(broker.data.glob(f"{name}-*")))
