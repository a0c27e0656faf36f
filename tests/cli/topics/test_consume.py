"""`muster consume`: the positions at which it starts and ends, and the records that it prints."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from tests.brokers import CHECKOUT
from tests.cli.running import Ran, run
from tests.waiting import until

pytestmark = pytest.mark.interop


@pytest.fixture
def orders(bootstrap: str, name: str) -> str:
    """Creates a topic with two partitions of five records each: a0 to a4, and b0 to b4. Returns its
    name."""
    run("topics", "create", name, "-p", "2")
    for partition, letter in enumerate("ab"):
        words = [word for number in range(5) for word in ("-v", f"{letter}{number}")]
        line = ["produce", name, "-p", str(partition), *words]
        assert until("it takes records", lambda line=line: run(*line).code == 0)  # type: ignore[misc]
    return name


def values(ran: Ran) -> list[str]:
    assert ran.code == 0, ran.err
    return ran.out.split()


def test_consume_reads_partitions_from_the_log_start_to_the_log_end(orders: str) -> None:
    every = run("consume", orders, "--from-beginning", "--until-end")
    one = run("consume", f"{orders}:1", "--from-beginning", "--until-end")
    pattern = run("consume", f"{orders[:-2]}*:0", "--from-beginning", "--until-end")
    none = run("consume", orders, "--until-end")

    assert sorted(values(every)) == [f"{letter}{n}" for letter in "ab" for n in range(5)]
    assert values(one) == ["b0", "b1", "b2", "b3", "b4"]
    assert values(pattern) == ["a0", "a1", "a2", "a3", "a4"]
    assert values(none) == []


def test_consume_starts_at_option_offset_and_stops_after_option_max_records(orders: str) -> None:
    ran = run("consume", f"{orders}:0", "--offset", "1", "--max", "3")
    end = run("consume", f"{orders}:0", "--offset", "5", "--until-end")

    assert values(ran) == ["a1", "a2", "a3"]
    assert values(end) == []


def test_consume_rejects_an_offset_outside_the_log_with_the_log_bounds(orders: str) -> None:
    above = run("consume", orders, "--offset", "6")
    run("topics", "trim", f"{orders}:0", "--before-offset", "2", "--execute")
    below = run("consume", f"{orders}:0", "--offset", "1")
    run("topics", "trim", f"{orders}:0", "--to-end", "--execute")
    empty = run("consume", f"{orders}:0", "--offset", "1")

    outside = f"is outside {orders}:0, which has"
    end = "; the log end offset is 5\n"
    assert above.err == f"muster: --offset 6 {outside} offsets 0 to 4{end}"
    assert below.err == f"muster: --offset 1 {outside} offsets 2 to 4{end}"
    assert empty.err == f"muster: --offset 1 {outside} no records{end}"
    assert [above.code, below.code, empty.code] == [1, 1, 1]


def test_consume_option_last_prints_the_newest_records_of_all_partitions(orders: str) -> None:
    run("produce", orders, "-p", "0", "-v", "newest")
    ran = run("consume", orders, "--last", "3", "--until-end")
    more = run("consume", orders, "--last", "100", "--until-end")

    assert values(ran)[-1] == "newest"
    assert values(ran)[:2] == ["b3", "b4"]
    assert len(values(more)) == 11


def test_consume_option_from_starts_at_a_time_and_prints_this_time(orders: str) -> None:
    record = run("consume", f"{orders}:1", "--offset", "0", "-n", "1", "--json").json
    first = record["timestamp_ms"]
    ran = run("consume", orders, "--from", str(first), "--until-end")
    ago = run("consume", orders, "--from", "1h", "--until-end")
    later = run("consume", orders, "--from", "2100-01-01", "--until-end")

    assert values(ran)[-5:] == ["b0", "b1", "b2", "b3", "b4"]
    assert ran.err.startswith("muster: records since 20")
    assert len(values(ago)) == 10
    assert values(later) == []
    assert later.err == "muster: records since 2100-01-01T00:00:00.000Z\n"


def test_consume_with_group_continues_at_committed_offsets(orders: str) -> None:
    words = ["consume", orders, "--group", orders, "--from-beginning"]
    first = run(*words, "--max", "4")
    rest = run(*words, "--until-end")
    again = run(*words, "--until-end")

    assert sorted(values(first) + values(rest)) == [f"{x}{n}" for x in "ab" for n in range(5)]
    assert values(again) == []


def test_consume_with_option_idle_0_exits_when_no_records_are_available(orders: str) -> None:
    assert values(run("consume", orders, "--idle", "0")) == []


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["TOPIC:9"], 1, "partition TOPIC:9 does not exist"),
        (["TOPIC", "none-*"], 1, "topics like none-*: not found"),
        (["TOPIC", "--isolation", "serializable"], 2, "choose one of read_committed, read_uncomm"),
        (["TOPIC", "--from", "noon"], 2, "--from noon: write the time as 2026-01-31T12:00:00Z"),
        (["TOPIC", "--last", "0"], 2, ", 1 or greater"),
        (["TOPIC", "--raw", "--json"], 2, "--json, --raw and --format can't be combined"),
        (["TOPIC", "--keys", "-f", "%s"], 2, "--json, --raw and --format can't be combined"),
        (["TOPIC", "--delimiter", "x"], 2, "--delimiter needs --raw"),
        (["TOPIC", "--group", "g", "--last", "3"], 2, "with --group the group chooses"),
        (["TOPIC:0", "--group", "g"], 2, "with --group the group chooses"),
    ],
)
def test_consume_rejects_invalid_options_with_one_error_line(
    orders: str, words: list[str], code: int, says: str
) -> None:
    ran = run("consume", *(word.replace("TOPIC", orders) for word in words))

    assert (ran.code, ran.out) == (code, "")
    assert says.replace("TOPIC", orders) in ran.err
    assert ran.err.count("\n") == 1


def test_consume_exits_0_without_error_when_its_reader_closes_the_pipe(
    bootstrap: str, orders: str
) -> None:
    line: list[Any] = [sys.executable, "-m", "cli.main", "consume", orders, "--from-beginning"]
    with subprocess.Popen(
        [*line, "-b", bootstrap], cwd=CHECKOUT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        run("produce", orders, *(word for _ in range(50) for word in ("-v", "x" * 1000)))
        assert process.wait(30) == 0
        assert process.stderr.read() == b""
