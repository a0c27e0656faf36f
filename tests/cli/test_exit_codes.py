"""Each exit code that docs/use/command-line.md documents is the exit code of a real process."""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from protocol.records.batch import encode_batch
from protocol.records.section import Record
from tests.brokers import CHECKOUT, COMMAND, Broker, free_port
from tests.pipeline.small_logs import NOON, small_history, write_segment
from tests.waiting import until

pytestmark = pytest.mark.interop

PAGE = (CHECKOUT / "docs" / "use" / "command-line.md").read_text()
DOCUMENTED = {int(code) for code in re.findall(r"^\| (\d+) \|", PAGE, re.MULTILINE)}


def process(*words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*COMMAND, *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=CHECKOUT,
    )


def code_of(*words: str) -> int:
    ended = process(*words)
    _, told = ended.communicate(timeout=60)
    assert "Traceback" not in told
    return ended.returncode


def signalled(number: int, broker: Broker) -> int:
    """Returns the exit code of a command that receives signal ``number`` while it waits for
    input."""
    waiting = process("produce", "signalled", "-b", broker.bootstrap)
    try:
        assert until("it reads its input", lambda: reads(waiting))
        waiting.send_signal(number)
        waiting.wait(20)
        assert waiting.stderr is not None
        assert "Traceback" not in waiting.stderr.read()
        return waiting.returncode
    finally:
        waiting.kill()
        waiting.wait()


def reads(running: subprocess.Popen[str]) -> bool:
    return "pipe" in Path(f"/proc/{running.pid}/wchan").read_text()


def stuck(folder: Path) -> int:
    """Returns the exit code of `pipeline lag --fail-on stuck` for a data directory with a stuck
    group."""
    data = small_history(folder / "history")
    orders = encode_batch([Record(offset, NOON, None, b"x") for offset in range(100)])
    write_segment(data, 0, orders, topic="orders")
    words = ["--source", str(data), "--out", str(folder / "tables"), "--fail-on", "stuck"]
    return code_of("pipeline", "lag", *words, "--as-of", "2026-01-01T13:00:00Z")


CASES: dict[int, Callable[[Broker, Path], int]] = {
    0: lambda broker, _: code_of("topics", "list", "-b", broker.bootstrap),
    1: lambda broker, _: code_of("groups", "describe", "nobody", "-b", broker.bootstrap),
    2: lambda *_: code_of("topics", "grow", "orders"),
    3: lambda *_: code_of("topics", "list", "-b", f"127.0.0.1:{free_port()}"),
    4: lambda _, file: code_of("config", "check", str(file)),
    5: lambda _, file: stuck(file.parent),
    130: lambda broker, _: signalled(signal.SIGINT, broker),
    143: lambda broker, _: signalled(signal.SIGTERM, broker),
}


def test_each_documented_exit_code_has_a_test_case() -> None:
    assert CASES.keys() == DOCUMENTED


@pytest.mark.parametrize("code", CASES)
def test_process_exits_with_each_documented_exit_code(
    code: int, broker: Broker, tmp_path: Path
) -> None:
    file = tmp_path / "server.properties"
    file.write_text("log.retention.ms=oops\n")
    assert code_of("topics", "create", "signalled", "--if-not-exists", "-b", broker.bootstrap) == 0
    assert CASES[code](broker, file) == code
