"""Fuzz tests of options: for each hostile value, a command prints one error and exits with a
documented code.

The tests read the commands from typer, so that they include new commands. `LINES` has the options
and arguments that each command needs. The tests replace each option and argument by hostile values,
and combine random options. They run with a broker and with an unreachable address. A failure shows
the command line in a form that can be pasted into a shell.
"""

from __future__ import annotations

import json
import random
import signal
import socket
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from cli.main import command_of
from cli.usage import commands, runs
from pipeline.errors import PipelineError
from tests.brokers import Broker, free_port
from tests.cli import running
from tests.cli.running import Ran

pytestmark = pytest.mark.interop

SEED = 4711
WITHIN_S = 20
ENDLESS_S = 0.2
"""The time in seconds after which the test interrupts a command that runs endlessly."""
CODES = {0, 1, 2, 3, 4, 130}
RANDOM_LINES = 12
VALUES = 25
"""The number of hostile values, chosen at random, that the test tries for each option. The soak
test tries all hostile values."""

HOSTILE = [
    "", " ", "-", "--", "-1", "0", "1", "00", "٣", "1_000", "1e400", "nan", "inf", "-inf", "0x10",
    "2147483647", "2147483648", "9223372036854775807", "9223372036854775808", "9" * 5000, "true",
    "a", "a b", "a\nb", "\x1b[2Jx", "\u202ex", "caf\udce9", "é" * 40_000, "x" * 249, "x" * 40_000,
    "[red]x[/red]", "%s{0}", "`id`", "*", "?[", "[", "..", "__consumer_offsets", "#1",
    "=", "a=", "=b", "a=b", "retention.ms=-2", "cleanup.policy=x", ":", "a:", ":0", "orders:0",
    "orders:0-1,5", "orders:5-4", "orders:99999999999", "orders:0=1", "orders:0=-1", "orders:9=1",
    "orders:0=9223372036854775808", "orders:2147483648=0", "orders:0=٣",
    "127.0.0.1:0", "127.0.0.1:99999", "127.0.0.1:٣", "[::1]:1", "http://127.0.0.1", ",", "host:",
    "P", "PT1H", "-P1D", "P99999999999999D", "99999999999d", "9" * 400 + "d", "90m",
    "2026-01-31T12:00:00", "0001-01-01", "9999-12-31T23:59:59+00:00", "2026-01-31T12:00:00+99:99",
    "/dev/full", "/dev/null", "/", "/proc/self/mem", "/root/\udce9", "x" * 300 + "/y",
    "json", "csv",
]  # fmt: skip

RUNS = {"serve", "dev cluster"}
"""Commands that run brokers. Other test modules test these commands."""
SHARED = {"--bootstrap", "--timeout", "--http", "--json", "--wide"}
LINES = {
    "cluster": "",
    "cluster describe": "",
    "cluster check": "",
    "cluster why": "orders-0",
    "top": "--once --every 0.05",
    "produce": "orders -v x",
    "consume": "orders --from-beginning -n 1 --idle 0.05",
    "acls list": "",
    "acls add": "--principal User:alice --operation read --topic orders",
    "acls remove": "--principal User:alice --yes",
    "acls explain": "--principal User:alice --operation read --topic orders",
    "quotas list": "",
    "quotas set": "producer_byte_rate=1e9 --user alice",
    "quotas remove": "producer_byte_rate --user alice",
    "users list": "",
    "users add": "alice",
    "users set-password": "alice",
    "users remove": "alice",
    "topics create": "orders",
    "topics list": "",
    "topics describe": "orders",
    "topics trim": "orders",
    "topics grow": "orders --partitions 4",
    "topics delete": "orders",
    "groups list": "",
    "groups describe": "billing",
    "groups members": "billing",
    "groups lag": "billing",
    "groups reset": "billing --topic orders --to-latest",
    "groups delete": "billing",
    "groups evict": "billing x",
    "groups why": "billing",
    "groups watch": "",
    "share describe": "billing",
    "share why": "billing",
    "share peek": "billing orders:0",
    "transactions list": "",
    "transactions describe": "billing-1",
    "transactions why": "billing-1",
    "transactions abort": "billing-1",
    "transactions hanging": "",
    "offsets get": "billing",
    "offsets set": "billing orders:0=1",
    "offsets delete": "billing --topic orders",
    "offsets export": "billing",
    "offsets import": "FILE",
    "offsets expiring": "",
    "configs get": "--topic orders",
    "configs set": "--topic orders retention.ms=3600000",
    "backup create": "NEW",
    "backup show": "FILE",
    "backup restore": "FILE",
    "config check": "FILE",
    "logs dump": "FOLDER",
}
"""The options and arguments that each command needs. Commands that use Spark are not included."""

BESIDE = (
    "muster: left out: ",
    "muster: not checked: ",
    "muster: --command-config: ignored properties: ",
    "muster: topic ",
)
"""Prefixes of warnings that a command may print in addition to its error."""
ENDLESS = {"groups watch", "consume", "top"}


class Hung(Exception):
    """Raised when a command does not end within its time limit."""


def leaves() -> dict[str, Any]:
    found = {" ".join(path): each for path, each in commands(command_of()) if runs(each)}
    return {path: each for path, each in found.items() if path not in RUNS}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the working directory of the commands, with an offsets file and a partition
    directory."""
    made = tmp_path_factory.mktemp("fuzz")
    (made / "file").write_text(
        json.dumps({"version": 1, "groups": [{"group": "g", "offsets": []}]})
    )
    (made / "orders-0").mkdir()
    (made / "orders-0" / "00000000000000000000.log").write_bytes(b"\0" * 100)
    return made


@pytest.fixture
def here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Disables DNS lookups, makes ``folder`` the working directory, and returns ``folder``."""

    def no_names(host: Any, *more: Any, **named: Any) -> Any:
        if isinstance(host, str) and host.replace(".", "").isdigit() and host.isascii():
            return asked(host, *more, **named)
        host.encode("idna") if isinstance(host, str) else None
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    asked = socket.getaddrinfo
    monkeypatch.setattr(socket, "getaddrinfo", no_names)
    monkeypatch.chdir(folder)
    return folder


@contextmanager
def ended(path: str) -> Iterator[None]:
    """Raises an exception in the ``with`` block if the command ``path`` runs for too long:
    KeyboardInterrupt (like Ctrl-C) for a command that never ends by itself, `Hung` for any other
    command."""
    alarms = [KeyboardInterrupt] if path in ENDLESS else []

    def alarm(*_: object) -> None:
        raise alarms.pop() if alarms else Hung

    before = signal.signal(signal.SIGALRM, alarm)
    first = ENDLESS_S if alarms else WITHIN_S
    signal.setitimer(signal.ITIMER_REAL, first, WITHIN_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def run(path: str, words: list[str]) -> Ran:
    with ended(path):
        return running.run(*path.split(), *words)


def fault(path: str, words: list[str]) -> str | None:
    """Runs a command. Returns None if its output and exit code are correct, else the reason."""
    try:
        ran = run(path, words)
    except Hung:
        return f"it does not end within {WITHIN_S} s"
    except KeyboardInterrupt:  # before `main` handles Ctrl-C
        return None if path in ENDLESS else "it was interrupted"
    except Exception as error:  # noqa: BLE001 - any exception is a fault
        return f"it raises {type(error).__name__}: {str(error)[:200]}"
    lines = ran.err.splitlines()
    ends = [line for line in lines if not line.startswith(BESIDE)] or lines[:1]
    if ran.code not in CODES:
        return f"its exit code is {ran.code}"
    if "Traceback" in ran.err:
        return "it prints a traceback"
    if any(not line.startswith("muster: ") for line in lines):
        return f"it prints what is no sentence of ours: {lines[:2]}"
    if ran.code not in (0, 130) and len(ends) != 1 and "Usage:" not in ran.out:
        return f"it ends with {len(ends)} sentences and exit code {ran.code}: {ends[:3]}"
    return None


def words_of(path: str, folder: Path) -> list[str]:
    """Returns the options and arguments that `LINES` has for a command."""
    new = folder / f"new-{len(list(folder.iterdir()))}"
    given = {"FILE": str(folder / "file"), "FOLDER": str(folder), "NEW": str(new)}
    return [given.get(word, word) for word in LINES.get(path, "").split()]


def with_value(param: Any, value: str) -> list[str]:
    """Returns the words of a command line that pass ``value`` to an option or argument."""
    if param.param_type_name == "argument":
        return ["--", value]
    name: str = max(param.opts, key=len)
    return [name] if param.is_flag else [f"{name}={value}"]


def each_value(path: str, command: Any, folder: Path, count: int) -> Iterator[list[str]]:
    """Yields command lines in which one option or argument has a hostile value. There are ``count``
    values for each option or argument, but only 4 for an option that all commands have. A command
    that runs until it is stopped is slow, so each of its options and arguments gets at most
    `VALUES` values."""
    chance = random.Random(f"{SEED} {path}")
    words = words_of(path, folder)
    count = min(count, VALUES) if path in ENDLESS else count
    for param in command.params:
        if param.param_type_name == "argument":
            continue
        shared = bool(SHARED & set(param.opts))
        values = chance.sample(HOSTILE, 4 if shared else count)
        for value in [""] if param.is_flag else values:
            yield [*words, *with_value(param, value)]
    for number, word in enumerate(words):
        for value in () if word.startswith("-") else chance.sample(HOSTILE, count):
            yield [*words[:number], value, *words[number + 1 :]]


def at_random(path: str, command: Any, folder: Path) -> Iterator[list[str]]:
    """Yields command lines in which three random options have hostile values."""
    chance = random.Random(f"{SEED} {path} at random")
    for _ in range(RANDOM_LINES):
        chosen = chance.sample(command.params, min(3, len(command.params)))
        values = [with_value(param, chance.choice(HOSTILE)) for param in chosen]
        yield [*words_of(path, folder), *(word for words in sorted(values) for word in words)]


def faults(path: str, lines: Iterable[list[str]]) -> str:
    """Runs command lines. Returns the command lines that fail, each with its error, or "" if all
    pass."""
    found = []
    for line in lines:
        wrong = fault(path, line)
        if wrong:
            found.append(f"muster {path} {' '.join(map(repr, line))[:400]}\n    {wrong}")
    return f"{len(found)} lines\n" + "\n".join(found[:20]) if found else ""


PATHS = sorted(leaves())
ON_SPARK = [path for path in PATHS if path.startswith("pipeline ")]
ON_BROKERS = [path for path in PATHS if path not in ON_SPARK]


def test_fuzzed_command_lines_include_every_command_that_uses_a_broker() -> None:
    assert set(LINES) == set(ON_BROKERS)


@pytest.mark.parametrize("path", PATHS)
def test_command_prints_one_error_for_hostile_options_when_no_broker_runs(
    path: str, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MUSTER_BOOTSTRAP", f"127.0.0.1:{free_port()}")
    monkeypatch.setattr("pipeline.session.open_session", no_spark)
    assert not faults(path, at_random(path, leaves()[path], here))


def no_spark(*_: object, **__: object) -> None:
    raise PipelineError("there is no Spark here")


@pytest.mark.parametrize("path", ON_BROKERS)
def test_command_prints_one_error_for_hostile_options_when_a_broker_runs(
    path: str, here: Path, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin(broker, monkeypatch)
    assert not faults(path, each_value(path, leaves()[path], here, VALUES))
    assert not faults(path, at_random(path, leaves()[path], here))


@pytest.mark.soak
@pytest.mark.parametrize("path", ON_BROKERS)
def test_command_prints_one_error_for_each_hostile_value(
    path: str, here: Path, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin(broker, monkeypatch)
    assert not faults(path, each_value(path, leaves()[path], here, len(HOSTILE)))


def begin(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Creates a topic and a group, and sets MUSTER_BOOTSTRAP to the address of the broker."""
    monkeypatch.setenv("MUSTER_BOOTSTRAP", broker.bootstrap)
    running.run("topics", "create", "orders", "-p", "3")
    running.run("offsets", "set", "billing", "orders:0=0", "--execute")


@pytest.mark.smoke
@pytest.mark.planted("fuzzing of options")
def test_fuzz_test_reports_a_command_that_raises_an_exception(
    monkeypatch: pytest.MonkeyPatch, here: Path
) -> None:
    def raises(*_: object, **__: object) -> None:
        raise ValueError("planted")

    monkeypatch.setattr("cli.config.check.rows_of", raises)
    assert fault("config check", [str(here / "file")]) == "it raises ValueError: planted"


@pytest.mark.smoke
@pytest.mark.planted("fuzzing of options")
def test_fuzz_test_reports_a_command_that_hangs(
    monkeypatch: pytest.MonkeyPatch, here: Path
) -> None:
    monkeypatch.setattr("tests.cli.test_fuzz_options.WITHIN_S", 0.05)
    monkeypatch.setattr("cli.config.check.rows_of", lambda *_: signal.pause())
    assert "does not end" in (fault("config check", [str(here / "file")]) or "")
