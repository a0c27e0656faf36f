"""Commands print all times in UTC. A printed time is parsed as the same time."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from cli.client.cluster import Cluster
from cli.client.group_member import GroupMember
from cli.times import datetime_ms
from tests.brokers import CHECKOUT, KIND, Broker
from tests.cli.running import run
from tests.interop.cluster import Cluster as Asked

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(
        KIND != "muster", reason="`groups why` and `offsets expiring` need Muster's HTTP API"
    ),
]

ZONES = ("UTC", "Asia/Tokyo", "America/St_Johns")
HOURS = 12
_INSTANT = re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{3})?Z")
_LIKE_A_TIME = re.compile(r"\b\d\d:\d\d\b|\b\d{4}-\d\d-\d\d\b")


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """Yields a broker whose time zone is Tokyo. It has a record for each hour before and after the
    current time, and a group without members."""
    os.environ["TZ"] = "Asia/Tokyo"
    try:
        data = tmp_path_factory.mktemp("shop") / "data"
        broker = Broker(data, {"offsets.topic.num.partitions": "1"}, http="127.0.0.1:0").start()
    finally:
        del os.environ["TZ"]
    try:
        Asked(broker.bootstrap).create_topic("orders", 1)
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        now_ms = time.time_ns() // 1_000_000
        for hour in range(-HOURS, HOURS):
            at_ms = now_ms + hour * 3_600_000 + 1_800_000
            producer.produce("orders", str(hour).encode(), timestamp=at_ms)
        assert producer.flush(20) == 0
        cluster = Cluster(broker.bootstrap)
        member = GroupMember(cluster, "billing", ["orders"])
        member.join()
        assert member.commit({("orders", 0): 2 * HOURS})
        member.leave()
        cluster.close()
        yield broker
    finally:
        broker.kill()


@pytest.fixture
def commands(shop: Broker) -> list[list[str]]:
    """Returns the commands that print times."""
    at = ["-b", shop.bootstrap]
    reset = ["groups", "reset", "billing", "--topic", "orders", "--dry-run", *at]
    segment = str(shop.partition_folder("orders", 0) / f"{0:020}.log")
    return [
        ["groups", "why", "billing", *at],
        ["offsets", "expiring", "--within", "8d", *at],
        ["logs", "dump", segment, "--records"],
        ["consume", "orders", "--timestamps", "--from-beginning", "--until-end", *at],
        ["consume", "orders", "-f", "%I\\n", "--from-beginning", "--until-end", *at],
        ["topics", "trim", "orders", "--before", "2026-01-31T12:00:00", "--dry-run", *at],
        [*reset, "--to-datetime", "2026-01-31T12:00:00"],
        [*reset, "--to-datetime", "2026-01-31T13:00:00+01:00"],
    ]


@pytest.fixture(params=ZONES)
def zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Sets the time zone of this process and of its children during the test."""
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield request.param
    monkeypatch.undo()
    time.tzset()


def test_commands_print_times_only_in_utc(zone: str, commands: list[list[str]]) -> None:
    for words in commands:
        done = run(*words)
        assert done.code == 0, done.err
        assert _INSTANT.search(done.out), words
        assert _LIKE_A_TIME.search(_INSTANT.sub("", done.out)) is None, done.out


def test_printed_times_do_not_depend_on_the_time_zone_of_the_user(
    commands: list[list[str]],
) -> None:
    printed = [
        [
            _INSTANT.findall(
                subprocess.run(
                    [sys.executable, "-m", "cli.main", *words],
                    env={**os.environ, "TZ": each},
                    capture_output=True,
                    text=True,
                    timeout=60,
                    cwd=CHECKOUT,
                    check=True,
                ).stdout
            )
            for words in commands
        ]
        for each in ZONES
    ]

    assert printed[0] == printed[1] == printed[2]
    assert printed[0][-1] == printed[0][-2] == ["2026-01-31T12:00:00.000Z"]


def test_groups_reset_accepts_a_time_in_the_form_that_groups_why_prints(
    zone: str, shop: Broker
) -> None:
    story = run("groups", "why", "billing", "-b", shop.bootstrap).out
    copied = _INSTANT.findall(story)[-1]
    words = ("groups", "reset", "billing", "--topic", "orders", "--to-datetime", copied)
    plan = run(*words, "--dry-run", "-b", shop.bootstrap)
    told = run(*words, "--dry-run", "--json", "-b", shop.bootstrap).json

    assert copied.endswith("Z")
    assert abs(datetime_ms(copied) - time.time_ns() // 1_000_000) < 600_000
    assert f"Offsets as of {copied[:-1]}.000Z" in plan.out
    assert told["as_of_ms"] == datetime_ms(copied)
    [change] = told["changes"]
    assert change["after"] == HOURS, "a wrong zone would select another record"


def test_broker_log_lines_have_times_in_utc_with_milliseconds(shop: Broker) -> None:
    stamps = [line.split()[0] for line in shop.lines() if "[info" in line]

    assert stamps
    assert all(_INSTANT.fullmatch(each) and "." in each for each in stamps), stamps
