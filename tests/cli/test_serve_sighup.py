"""After SIGHUP, the broker reads its properties file again and applies the dynamic settings. It
logs the changed settings that need a restart."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.brokers import KIND, Broker
from tests.cli import sessions
from tests.waiting import until

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(KIND != "muster", reason="SIGHUP ends Apache Kafka"),
]

Hangup = Callable[[str], str]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    """Yields a broker with the settings file `tmp_path/server.properties`."""
    (tmp_path / "server.properties").write_text("log.retention.ms=1000\n")
    made = Broker(tmp_path / "data")
    words = [*made._command(), "--config", str(tmp_path / "server.properties")]
    made._command = lambda: words  # type: ignore[method-assign]
    yield made.start()
    made.kill()


@pytest.fixture
def hangup(broker: Broker, tmp_path: Path) -> Hangup:
    """Returns a function that writes server.properties, sends SIGHUP, and returns the broker's log
    line."""

    def send(text: str) -> str:
        (tmp_path / "server.properties").write_text(text)
        known = len(broker.lines())
        os.kill(broker.pid, signal.SIGHUP)

        def said() -> list[str]:
            return [line for line in broker.lines()[known:] if "reloaded" in line]

        return until("the broker logs the reload", said)[0]

    return send


def value(broker: Broker, setting: str) -> str:
    line = f"muster configs get {setting} --broker 1 --bootstrap {broker.bootstrap}"
    return sessions.typed(line).splitlines()[1].split()[1]


def test_sighup_applies_dynamic_settings_and_logs_those_that_need_a_restart(
    broker: Broker, hangup: Hangup
) -> None:
    assert value(broker, "log.retention.ms") == "1000"

    said = hangup("log.retention.ms=2000\nlog.segment.bytes=1048576\nnum.partitions=7\n")
    assert value(broker, "log.retention.ms") == "2000"
    assert value(broker, "log.segment.bytes") == "1048576"
    assert value(broker, "num.partitions") == "1"
    assert "wait_for_a_restart=['num.partitions']" in said

    hangup("")  # an empty file: all settings have their defaults
    assert value(broker, "log.segment.bytes") == "1073741824"


def test_sighup_with_an_invalid_file_changes_no_setting(broker: Broker, hangup: Hangup) -> None:
    said = hangup("log.retention.ms=2000\nlog.segment.bytes=many\n")

    assert "configs not reloaded" in said
    assert "log.segment.bytes=many: it must be a whole number" in said
    assert value(broker, "log.retention.ms") == "1000"


def test_sighup_with_unsupported_security_settings_changes_no_setting(
    broker: Broker, hangup: Hangup
) -> None:
    said = hangup("log.retention.ms=2000\nsasl.enabled.mechanisms=GSSAPI\nssl.provider=Own\n")

    assert "configs not reloaded" in said
    assert "does not support Java plug-in classes (ssl.provider)" in said
    assert value(broker, "log.retention.ms") == "1000"


def test_altered_setting_overrides_the_file_after_sighup(broker: Broker, hangup: Hangup) -> None:
    line = f"muster configs set log.retention.ms=3000 --broker 1 --bootstrap {broker.bootstrap}"
    assert "3000" in sessions.typed(line)

    hangup("log.retention.ms=2000\n")
    assert value(broker, "log.retention.ms") == "3000"
