"""`muster serve --test`: its JSON line, its errors, and its exit when the parent process ends."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from cli.version import VERSION
from tests.brokers import CHECKOUT, COMMAND, Broker
from tests.tested import Tested, tested
from tests.waiting import until
from tests.wire import Wire


def refused(*words: str, stdin: int | None = subprocess.DEVNULL) -> tuple[int, str]:
    """Runs `muster serve` with invalid options. Returns the exit code and the error line."""
    done = subprocess.run(
        [*COMMAND, "serve", *words],
        cwd=CHECKOUT, stdin=stdin, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.stdout == ""
    assert done.stderr.startswith("muster serve: ")
    assert done.stderr.count("\n") == 1, done.stderr
    return done.returncode, done.stderr.removeprefix("muster serve: ").rstrip("\n")


def test_serve_test_prints_its_addresses_as_one_line_of_json() -> None:
    with tested() as muster:
        with Wire(muster.port) as wire:
            assert wire.call("ApiVersions", 0)["error_code"] == 0
        assert muster.asked("GET", "/livez").status == 200
        assert set(muster.told) == {"bootstrap_servers", "http", "pid", "version", "data"}
        assert muster.told["pid"] == muster.process.pid
        assert muster.told["version"] == VERSION
        assert muster.told["data"] is None
        muster.post("/topics", topics=[{"name": "orders"}])
        assert muster.process.stdin is not None
        muster.process.stdin.close()
        assert muster.process.wait(20) == 0
        assert muster.process.stdout is not None
        assert muster.process.stdout.read() == ""
        assert "topic created" in muster.stderr()


def test_serve_test_writes_no_file_when_no_data_directory_is_given(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "cli.main", "serve", "--test", "--with-stdin"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(CHECKOUT), "TMPDIR": str(tmp_path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with process:
        assert process.stdout is not None
        port = int(json.loads(process.stdout.readline())["bootstrap_servers"].split(":")[1])
        with Wire(port) as wire:
            wire.call("FindCoordinator", 2, {"key": "g", "key_type": 0})
        open_files = {os.path.realpath(each) for each in Path(f"/proc/{process.pid}/fd").iterdir()}
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(20) == 0

    assert list(tmp_path.iterdir()) == []
    assert [each for each in open_files if each.startswith(str(tmp_path))] == []


_PARENT = """
import subprocess, sys, time
process = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
print(process.stdout.readline().decode(), end="", flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("words", [[], ["--data"]], ids=["memory", "directory"])
def test_serve_test_ends_when_its_parent_process_is_killed(
    words: list[str], tmp_path: Path
) -> None:
    more = [*words, str(tmp_path / "data")] if words else []
    command = [*COMMAND, "serve", "--test", "--with-stdin", *more]
    with subprocess.Popen(
        [sys.executable, "-c", _PARENT, *command], cwd=CHECKOUT, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        told = json.loads(parent.stdout.readline())
        parent.send_signal(signal.SIGKILL)
        parent.wait()

    until("the broker is gone", lambda: not _runs(told["pid"]))
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(told["bootstrap_servers"].split(":"), 5)


def _runs(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_serve_test_exits_0_on_a_signal(number: signal.Signals) -> None:
    with tested() as muster:
        muster.process.send_signal(number)

        assert muster.process.wait(20) == 0


def test_serve_test_with_a_data_directory_writes_the_clean_shutdown_marker(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with tested("--data", str(data)) as muster:
        muster.post("/topics", topics=[{"name": "orders"}])
        assert muster.end() == 0

    assert (data / ".kafka_cleanshutdown").exists()


def test_serve_test_ignores_data_on_standard_input() -> None:
    with tested() as muster:
        assert muster.process.stdin is not None
        muster.process.stdin.write("stop\n" * 100_000)
        muster.process.stdin.flush()

        assert muster.get("/lines")["lines"] == []


def test_serve_test_accepts_the_settings_of_serve(tmp_path: Path) -> None:
    properties = tmp_path / "server.properties"
    properties.write_text("num.partitions=7\nlog.dirs=/nowhere\n")
    with tested("--config", str(properties), "--set", "auto.create.topics.enable=false") as muster:
        muster.post("/topics", topics=[{"name": "orders"}])

        settings = muster.asked("GET", "/api/topics/orders").body
    assert settings["partitions"] == 7


def test_serve_test_with_two_listeners_keeps_its_port_after_a_reset() -> None:
    words = (
        "--set", "listeners=IN://127.0.0.1:0,OUT://127.0.0.1:0",
        "--set", "listener.security.protocol.map=IN:PLAINTEXT,OUT:PLAINTEXT",
        "--set", "inter.broker.listener.name=IN",
    )  # fmt: skip
    with tested(*words) as muster:
        muster.post("/reset")
        with Wire(muster.port) as wire:
            (broker,) = wire.call("Metadata", 12, {"topics": []})["brokers"]
        assert broker["port"] == muster.port


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (
            ["--listen", "0.0.0.0:0"],
            2,
            "--test: the listener 0.0.0.0:0 is not on loopback; a broker for tests is not"
            " protected; use 127.0.0.1, ::1 or localhost",
        ),
        (
            ["--http", "0.0.0.0:0"],
            2,
            "--test: the HTTP address 0.0.0.0:0 is not on loopback; a broker for tests is"
            " not protected; use 127.0.0.1, ::1 or localhost",
        ),
        (
            ["--set", "http.authentication=basic"],
            2,
            "--test can't be combined with http.authentication, http.metrics.token or"
            " http.security.protocol, because /test has neither a login nor TLS; remove these"
            " settings",
        ),
        (
            ["--http", "off"],
            2,
            "--test: /test needs HTTP; set http.listener to an address, not off",
        ),
        (
            ["--set", "zookeeper.connect=127.0.0.1:2181"],
            2,
            "--test: a broker for tests is standalone; remove zookeeper.connect",
        ),
        (
            ["--set", "num.partitions=none"],
            1,
            "num.partitions=none: it must be a whole number",
        ),
        (
            ["--set", "num.partition=3"],
            2,
            "unknown setting num.partition; did you mean num.partitions?",
        ),
        (["--set", "num.partitions"], 2, "--set num.partitions: write it as --set NAME=VALUE"),
        (["--with-stdin"], 1, "--with-stdin: standard input is a file; it must be a pipe"),
    ],
)
def test_serve_test_rejects_invalid_options_with_the_reason(
    words: list[str], code: int, sentence: str
) -> None:
    got, said = refused("--test", *words)

    assert got == code
    assert said.startswith(sentence)


def test_serve_rejects_the_option_with_stdin_if_the_option_test_is_not_set() -> None:
    assert refused("--with-stdin") == (2, "--with-stdin needs --test")


def test_serve_test_prints_the_addresses_of_each_broker_of_a_cluster() -> None:
    with tested("--brokers", "2") as muster:
        first, second = muster.told["brokers"]
        assert (first["broker"], second["broker"]) == (1, 2)
        servers = f"{first['bootstrap_servers']},{second['bootstrap_servers']}"
        assert muster.told["bootstrap_servers"] == servers
        assert muster.told["http"] == first["http"]
        muster.ask_at(second["http"].removeprefix("http://"))
        assert muster.get("/cluster")["controller"] in (1, 2)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--brokers", "3"], "--brokers needs --test"),
        (["--test", "--brokers", "10"], "--brokers 10: choose 1 to 9"),
        (
            ["--test", "--brokers", "3", "--data", "data"],
            "--brokers can't be combined with --data: the registry of a cluster for tests keeps"
            " nothing on disk",
        ),
        (
            ["--test", "--brokers", "3", "--listen", "0.0.0.0:0"],
            "--test: the listener 0.0.0.0:0 is not on loopback",
        ),
        (
            ["--test", "--brokers", "3", "--set", "zookeeper.connect=127.0.0.1:2181"],
            "--test: a broker for tests is standalone; remove zookeeper.connect",
        ),
        (
            ["--test", "--brokers", "3", "--set", "broker.id=7"],
            "--brokers sets broker.id for each broker; remove this setting",
        ),
    ],
)
def test_serve_test_rejects_invalid_settings_of_a_cluster(words: list[str], sentence: str) -> None:
    code, said = refused(*words)

    assert code == 2
    assert said.startswith(sentence)


def test_error_of_serve_test_names_an_address_in_use(broker: Broker) -> None:
    code, said = refused("--test", "--listen", broker.bootstrap)

    assert code == 1
    assert said == (
        f"can't listen on {broker.bootstrap}: Address already in use; free the address, or"
        f" choose another address with --listen; with port 0 the broker uses a free port"
    )


def test_error_of_serve_test_names_an_http_address_in_use() -> None:
    with tested() as muster:
        taken = muster.told["http"].removeprefix("http://")
        code, said = refused("--test", "--http", taken)

    assert code == 1
    assert said == (
        f"can't listen on {taken}: Address already in use; choose another address with --http"
        f" HOST:PORT; with port 0 the broker uses a free port"
    )


def test_verb_stop_keeps_the_port_of_the_broker_reserved() -> None:
    with tested() as muster:
        muster.post("/stop")
        code, said = refused("--test", "--listen", muster.bootstrap)
        muster.post("/start")

    assert (code, "Address already in use" in said) == (1, True)


def test_serve_test_rejects_an_unusable_data_directory(tmp_path: Path, broker: Broker) -> None:
    (tmp_path / "file").write_text("")
    assert refused("--test", "--data", str(tmp_path / "file")) == (
        1,
        f"{tmp_path / 'file'} can't be used: File exists",
    )
    code, said = refused("--test", "--data", str(broker.data))
    assert code == 1
    assert said.startswith(f"The data directory {broker.data} is in use by another process")


def test_serve_test_rejects_a_damaged_meta_properties(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with tested("--data", str(data)) as muster:
        muster.post("/topics", topics=[{"name": "orders"}])
        muster.end()
    (data / "meta.properties").write_text("version=9\n")

    code, said = refused("--test", "--data", str(data))

    assert code == 1
    assert "meta.properties" in said


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
def test_serve_without_option_test_answers_404_to_requests_of_test_mode(
    tmp_path: Path, method: str
) -> None:
    plain = Broker(tmp_path / "data", http="127.0.0.1:0")
    plain.start()
    try:
        line = until(
            "it serves HTTP", lambda: next(each for each in plain.lines() if "http://" in each)
        )
        asked = Tested()
        asked.ask_at(line.rstrip().rpartition("http://")[2])
        for path in ("/test", "/test/reset", "/test/faults/1"):
            body = {} if method == "POST" else None
            assert asked.asked(method, path, body) == (
                404,
                {
                    "error": "this broker runs without --test:"
                    " only `muster serve --test` serves /test"
                },
            )
    finally:
        plain.stop()


def test_serve_test_rejects_requests_with_a_foreign_origin_or_host() -> None:
    with tested() as muster:
        answered = muster.asked("POST", "/test/reset", {}, origin="http://localhost:3000")
        assert answered.status == 403
        answered = muster.asked("POST", "/test/reset", {}, host="evil.example")
        assert answered.status == 421
