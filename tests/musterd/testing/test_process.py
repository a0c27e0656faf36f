"""The process of the broker: its start in any environment, the errors of a failed start, and its
end."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource

from musterd.testing import BrokerDied, Muster, MusterError
from musterd.testing.process import Lines
from tests.brokers import CHECKOUT
from tests.waiting import until

CLASHING = ("log", "cli", "broker", "protocol", "offsets", "typer", "musterd", "signal", "json")


def is_alive(pid: int) -> bool:
    """Returns True if the process runs and is not a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_broker_accepts_connections_only_between_start_and_close() -> None:
    with Muster() as broker:
        host, port = broker.bootstrap_servers.split(":")
        assert host == "127.0.0.1"
        socket.create_connection((host, int(port))).close()
        assert is_alive(broker.pid)
        pid = broker.pid

    assert not is_alive(pid)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)))


def test_brokers_have_different_addresses_and_processes(tmp_path: Path) -> None:
    with Muster() as one, Muster() as two:
        assert len({one.bootstrap_servers, two.bootstrap_servers, one.http, two.http}) == 4
        assert one.pid != two.pid


def test_broker_in_memory_writes_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with Muster() as broker:
        broker.create_topic("orders")
        opened = []
        for each in Path(f"/proc/{broker.pid}/fd").iterdir():
            with suppress(FileNotFoundError):  # the broker has closed the file
                opened.append(os.readlink(each))

    assert [name for name in opened if name.startswith("/") and not name.startswith("/dev")] == []
    assert list(tmp_path.iterdir()) == []


def test_invalid_setting_fails_the_start_with_the_error_of_the_broker() -> None:
    with pytest.raises(BrokerDied) as died:
        Muster(settings={"num.partitions": "many"}).start()

    assert "with exit code 1; the last lines of the broker's log:" in str(died.value)
    assert "num.partitions" in died.value.lines[-1]


def test_unknown_setting_fails_the_start_with_a_suggestion() -> None:
    with pytest.raises(BrokerDied) as died:
        Muster(settings={"num.partition": 3}).start()

    assert died.value.lines[-1] == (
        "muster serve: unknown setting num.partition; did you mean num.partitions?"
    )


def test_error_of_a_start_on_a_port_in_use_names_the_port() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(BrokerDied, match=rf"127\.0\.0\.1:{port}"):
            Muster(port=port).start()


def test_start_fails_when_start_timeout_s_is_exceeded() -> None:
    broker = Muster(start_timeout_s=0.01)

    with pytest.raises(BrokerDied, match=r"did not accept connections within 0\.01 s"):
        broker.start()
    with pytest.raises(MusterError, match="not started and has no address"):
        _ = broker.pid


def test_method_of_an_unstarted_broker_raises_an_error() -> None:
    with pytest.raises(MusterError, match="not started: use `with Muster"):
        Muster().create_topic("orders")


def test_error_of_a_killed_broker_names_the_signal_and_reset_starts_a_new_broker() -> None:
    with Muster() as broker:
        os.kill(broker.pid, signal.SIGKILL)

        with pytest.raises(BrokerDied, match="the broker died by SIGKILL"):
            broker.create_topic("orders")
        broker.reset()  # starts another process
        broker.create_topic("orders")


def test_broker_ignores_settings_from_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MUSTER_NUM_PARTITIONS", "many")
    monkeypatch.setenv("MUSTER_LOG_RETENTION_MS", "1000")
    given = {"auto.create.topics.enable": False, "num.partitions": 3}

    with Muster(settings=given) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        [node] = admin.list_topics(timeout=30).brokers
        asked = ConfigResource(ConfigResource.Type.BROKER, str(node))
        told = admin.describe_configs([asked])[asked].result(30)

    assert told["auto.create.topics.enable"].value == "false"
    assert told["num.partitions"].value == "3"
    assert told["log.retention.ms"].value is None


def test_broker_ignores_python_environment_variables_and_local_modules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in CLASHING:
        (tmp_path / f"{name}.py").write_text(f"raise SystemExit('a stranger: {name}')\n")
    monkeypatch.chdir(tmp_path)
    for name in ("typer", "signal", "json"):  # in PYTHONPATH these modules break any Python program
        (tmp_path / f"{name}.py").rename(tmp_path / f"{name}.other")
    monkeypatch.setenv("PYTHONPATH", f".{os.pathsep}{tmp_path}")
    for name, value in (("WARNINGS", "error"), ("INSPECT", "1"), ("SAFEPATH", "1")):
        monkeypatch.setenv(f"PYTHON{name}", value)

    with Muster() as broker:
        broker.create_topic("orders")


def test_attribute_lines_contains_the_log_lines_of_the_broker() -> None:
    with Muster() as broker:
        broker.create_topic("orders")
        until("its line is there", lambda: any("topic=orders" in line for line in broker.lines))


def test_attribute_lines_contains_only_the_last_1000_log_lines() -> None:
    lines = Lines()
    for number in range(1500):
        lines.add(str(number))

    assert lines.since() == [str(number) for number in range(500, 1500)]
    assert lines.since(1498) == ["1498", "1499"]
    assert lines.since(1500) == []
    assert len(lines.since(3)) == 1000


# The end of the broker

LEAVES = """
import os, sys, time
from musterd.testing import Muster
broker = Muster(); broker.start()
print(broker.pid, flush=True)
"""
WAYS = {
    "a crash": (LEAVES + "raise ValueError", None),
    "sys.exit": (LEAVES + "sys.exit()", None),
    "os._exit": (LEAVES + "os._exit(3)", None),
    "SIGTERM": (LEAVES + "time.sleep(100)", signal.SIGTERM),
    "SIGKILL": (LEAVES + "time.sleep(100)", signal.SIGKILL),
}


@pytest.mark.parametrize("way", WAYS)
def test_unclosed_broker_ends_when_the_test_process_ends(way: str) -> None:
    script, number = WAYS[way]
    tester = python(script)
    pid = read_pid(tester)
    if number is not None:
        tester.send_signal(number)
    tester.wait(30)

    until("the broker has ended", lambda: not is_alive(pid))


def test_close_in_a_forked_process_does_not_end_the_broker() -> None:
    forks = LEAVES + (
        "child = os.fork()\n"
        "if not child:\n"
        "    broker.close()\n"
        "    print(os.getpid(), flush=True)\n"
        "    time.sleep(100)\n"
        "broker.create_topic('orders')\n"
        "print(broker.pid, flush=True)\n"
        "time.sleep(100)\n"
    )
    tester = python(forks)
    pid = read_pid(tester)
    fork = ({read_pid(tester), read_pid(tester)} - {pid}).pop()
    try:
        assert is_alive(pid)
        tester.kill()
        tester.wait(30)

        until("the broker has ended", lambda: not is_alive(pid))
        assert is_alive(fork)
    finally:
        os.kill(fork, signal.SIGKILL)


def python(script: str) -> subprocess.Popen[str]:
    """Starts a Python process that runs ``script``. The script prints process ids."""
    return subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)


def read_pid(tester: subprocess.Popen[str]) -> int:
    assert tester.stdout is not None
    return int(tester.stdout.readline())


LEAVES_NOTHING = """
import os, threading
from musterd.testing import Muster
from tests.brokers import CHECKOUT
from tests.waiting import until

def files():
    return len(os.listdir("/proc/self/fd"))

with Muster() as broker:
    pass
before, threads = files(), set(threading.enumerate())
for _ in range(3):
    with broker:
        broker.create_topic("orders")
until("its threads have ended", lambda: set(threading.enumerate()) <= threads)
assert files() <= before, os.listdir("/proc/self/fd")
"""


@pytest.mark.campaign
def test_closed_broker_leaves_no_threads_or_files_in_the_test_process() -> None:
    """The test runs in a child process, because the clients of other tests open files in this
    process."""
    command = [sys.executable, "-c", LEAVES_NOTHING]
    done = subprocess.run(
        command, cwd=CHECKOUT, capture_output=True, text=True, check=False, timeout=240
    )
    assert done.returncode == 0, done.stderr
