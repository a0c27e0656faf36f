"""Endless commands exit with code 130 after Ctrl-C and with 143 after SIGTERM. They print no
traceback."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from cli.errors import INTERRUPTED, TERMINATED
from tests.brokers import CHECKOUT, KIND, Broker
from tests.cli.running import run
from tests.interop.cluster import Cluster
from tests.waiting import until

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(KIND != "muster", reason="the watched HTTP API is Muster's own"),
]

SIGNALS = [(signal.SIGINT, INTERRUPTED), (signal.SIGTERM, TERMINATED)]
FOLLOWING = ["groups watch", "groups watch GROUP", "groups watch --json", "top", "top --json"]
CURSOR_SHOWN = b"\x1b[?25h"


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    broker = Broker(tmp_path_factory.mktemp("seen") / "data", http="127.0.0.1:0").start()
    Cluster(broker.bootstrap).create_topic("orders", 1)
    words = ("offsets", "set", "GROUP", "orders:0=0", "--execute", "-b", broker.bootstrap)
    assert run(*words).code == 0
    yield broker
    broker.kill()


def started(broker: Broker, line: str, **streams: int) -> subprocess.Popen[bytes]:
    words = [sys.executable, "-m", "cli.main", *line.split(), "-b", broker.bootstrap]
    env = {**os.environ, "TERM": "xterm", "COLUMNS": "80", "LINES": "24"}
    return subprocess.Popen(words, cwd=CHECKOUT, env=env, stderr=subprocess.PIPE, **streams)


@pytest.mark.parametrize(("number", "code"), SIGNALS, ids=["SIGINT", "SIGTERM"])
@pytest.mark.parametrize("line", FOLLOWING)
def test_interrupted_endless_command_in_a_pipe_prints_no_error(
    seen: Broker, line: str, number: signal.Signals, code: int
) -> None:
    following = started(seen, f"{line} --every 0.05", stdout=subprocess.PIPE)
    assert following.stdout is not None
    following.stdout.readline()
    following.send_signal(number)
    _, errors = following.communicate(timeout=30)

    assert (following.returncode, errors) == (code, b"")


@pytest.mark.parametrize(("number", "code"), SIGNALS, ids=["SIGINT", "SIGTERM"])
@pytest.mark.parametrize("line", ["groups watch", "top"])
def test_interrupted_endless_command_shows_the_terminal_cursor_again(
    seen: Broker, line: str, number: signal.Signals, code: int
) -> None:
    ours, its = pty.openpty()
    following = started(seen, f"{line} --every 0.05", stdout=its, stdin=its)
    os.close(its)
    drawn = bytearray()

    def read() -> None:
        try:
            while chunk := os.read(ours, 65536):
                drawn.extend(chunk)
        except OSError:  # the terminal closes when its last process exits
            return

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    until("it has drawn something", lambda: b"GROUP" in drawn)
    following.send_signal(number)
    _, errors = following.communicate(timeout=30)
    reader.join(10)
    os.close(ours)

    assert (following.returncode, errors) == (code, b"")
    assert drawn.rindex(CURSOR_SHOWN) > drawn.rindex(b"GROUP")


@pytest.mark.parametrize(("number", "code"), SIGNALS, ids=["SIGINT", "SIGTERM"])
def test_interrupted_consumer_leaves_its_group(
    seen: Broker, number: signal.Signals, code: int
) -> None:
    group = f"reads-{code}"
    consuming = started(seen, f"consume orders --group {group}", stdout=subprocess.PIPE)

    def members() -> int:
        return len(
            run("groups", "describe", group, "--json", "-b", seen.bootstrap).json[0]["members"]
        )

    until("it is in its group", lambda: members() == 1)
    consuming.send_signal(number)
    _, errors = consuming.communicate(timeout=30)

    assert (consuming.returncode, errors) == (code, b"")
    assert members() == 0
