"""Tests ListTransactions and DescribeTransactions in every version and with every filter. Except
for the skipped tests, they also pass on Apache Kafka 4.3.1 (BROKER=kafka)."""

from __future__ import annotations

import time

import pytest

from protocol.errors import (
    INVALID_REGULAR_EXPRESSION,
    INVALID_REQUEST,
    NONE,
    TRANSACTIONAL_ID_NOT_FOUND,
)
from tests.broker.transactional_calls import (
    add_offsets,
    added,
    begin,
    create_led,
    describe,
    end,
    listed,
    state_of,
)
from tests.brokers import KIND
from tests.waiting import until
from tests.wire import Wire

VERSIONS = range(3)
STATES = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "Dead",
    "PrepareEpochFence",
)


def ended(wire: Wire, name: str, topic: str, committed: bool) -> tuple[int, int]:
    """Begins and ends a transaction. Returns the producer id and epoch in the EndTxn response."""
    producer = begin(wire, name)
    added(wire, name, producer, [(topic, [0])])
    code, after = end(wire, name, producer, committed)
    assert code == NONE
    wanted = "CompleteCommit" if committed else "CompleteAbort"
    until("it is complete", lambda: state_of(wire, name) == wanted)
    return after


def states(wire: Wire, name: str, version: int = 2, **filters: object) -> dict[str, str]:
    """Returns the states of the listed transactional ids of this test. The keys are the ids without
    their prefix, which is the name of the test."""
    answer = listed(wire, version, **filters)
    assert answer["error_code"] == NONE
    return {
        each["transactional_id"].removeprefix(name): each["transaction_state"]
        for each in answer["transaction_states"]
        if each["transactional_id"].startswith(name)
    }


@pytest.mark.parametrize("version", VERSIONS)
def test_list_transactions_returns_and_filters_every_state(
    wire: Wire, name: str, version: int
) -> None:
    create_led(wire, name)
    begin(wire, f"{name}.empty")
    opened = begin(wire, f"{name}.open")
    added(wire, f"{name}.open", opened, [(name, [0])])
    committer = ended(wire, f"{name}.committed", name, committed=True)
    ended(wire, f"{name}.aborted", name, committed=False)
    everything = {
        ".empty": "Empty",
        ".open": "Ongoing",
        ".committed": "CompleteCommit",
        ".aborted": "CompleteAbort",
    }

    assert states(wire, name, version) == everything
    for which, state in everything.items():
        assert states(wire, name, version, state_filters=[state]) == {which: state}
    both = states(wire, name, version, state_filters=["Ongoing", "Empty", "Ongoing"])
    assert both == {".empty": "Empty", ".open": "Ongoing"}
    of_two = {"producer_id_filters": [opened[0], committer[0]]}
    assert set(states(wire, name, version, **of_two)) == {".open", ".committed"}
    assert set(states(wire, name, version, **of_two, state_filters=["Ongoing"])) == {".open"}
    assert states(wire, name, version, producer_id_filters=[-1]) == {}
    end(wire, f"{name}.open", opened)


@pytest.mark.parametrize("version", VERSIONS)
def test_unknown_state_filters_are_returned_and_match_no_transaction(
    wire: Wire, version: int
) -> None:
    answer = listed(wire, version, state_filters=["Nowhere", "empty", *STATES])
    alone = listed(wire, version, state_filters=["Nowhere"])

    assert sorted(answer["unknown_state_filters"]) == ["Nowhere", "empty"]
    assert (answer["error_code"], alone["error_code"]) == (NONE, NONE)
    assert alone["transaction_states"] == []


@pytest.mark.parametrize("version", VERSIONS[1:])
def test_duration_filter_matches_longer_transactions_and_ids_without_a_start_time(
    wire: Wire, name: str, version: int
) -> None:
    """As in Kafka (KIP-994), a transactional id without a start time matches every duration
    filter."""
    create_led(wire, name)
    begin(wire, f"{name}.empty")
    opened = begin(wire, f"{name}.open")
    added(wire, f"{name}.open", opened, [(name, [0])])

    long = 3_600_000
    assert set(states(wire, name, version, duration_filter=long)) == {".empty"}
    assert set(states(wire, name, version, duration_filter=-1)) == {".empty", ".open"}
    until(
        "a millisecond has passed",
        lambda: set(states(wire, name, version, duration_filter=0)) == {".empty", ".open"},
    )
    end(wire, f"{name}.open", opened)


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("NAME.a", {".a"}),
        ("NAME", set()),  # a part of the id
        (".a", set()),
        ("NAME.*", {".a", ".b", ".ä"}),
        ("NAME[.][a-b]", {".a", ".b"}),
        ("(?i)name.A", {".a"}),
        (r"NAME\.\pL", {".a", ".b", ".ä"}),
        (r"\QNAME.a\E", {".a"}),
        ("", {".a", ".b", ".ä"}),
        (None, {".a", ".b", ".ä"}),
    ],
)
def test_transactional_id_pattern_must_match_the_whole_id(
    wire: Wire, name: str, pattern: str | None, found: set[str]
) -> None:
    for each in "abä":
        begin(wire, f"{name}.{each}")
    asked = pattern and pattern.replace("NAME", name).replace("name", name.upper())

    assert set(states(wire, name, transactional_id_pattern=asked)) == found


@pytest.mark.parametrize("pattern", ["(", "(?=a)", r"(a)\1", "a{1001}", "a++", "[z-a]", "*"])
def test_invalid_transactional_id_pattern_is_an_error_without_results(
    wire: Wire, pattern: str
) -> None:
    answer = listed(wire, transactional_id_pattern=pattern, state_filters=["Nowhere"])

    assert answer["error_code"] == INVALID_REGULAR_EXPRESSION
    assert answer["transaction_states"] == answer["unknown_state_filters"] == []


@pytest.mark.skipif(KIND == "kafka", reason="a pattern may take any memory there")
@pytest.mark.parametrize("pattern", ["(a{1000}){1000}", "[^a]{1000}" * 3000])
def test_transactional_id_pattern_that_needs_much_memory_is_invalid(
    wire: Wire, pattern: str
) -> None:
    assert listed(wire, transactional_id_pattern=pattern)["error_code"] == (
        INVALID_REGULAR_EXPRESSION
    )


def test_transactional_id_patterns_are_matched_without_backtracking(wire: Wire, name: str) -> None:
    """A backtracking matcher, such as Python's `re`, would need years for these patterns."""
    for number in range(20):
        begin(wire, f"{'a' * 200}{name}{number}")
    began = time.monotonic()
    for pattern in ("(a*)*b", "(a|aa)+$", "(.*a){30}b", "((a+)+)+c"):
        assert listed(wire, transactional_id_pattern=pattern)["error_code"] == NONE

    assert time.monotonic() - began < 5


def test_describe_transactions_returns_every_field(wire: Wire, name: str) -> None:
    create_led(wire, name, 3)
    before_ms = int(time.time() * 1000)
    pid, epoch = begin(wire, name, timeout_ms=54_321)

    (empty,) = describe(wire, name)
    assert empty["transaction_start_time_ms"] == -1
    assert empty["topics"] == []

    added(wire, name, (pid, epoch), [(name, [2])])
    added(wire, name, (pid, epoch), [(name, [0])])
    assert add_offsets(wire, name, (pid, epoch), name) == NONE
    (opened,) = describe(wire, name)
    topics = {each["topic"]: sorted(each["partitions"]) for each in opened.pop("topics")}
    assert topics.pop(name) == [0, 2]
    assert [len(partitions) for partitions in topics.values()] == [1]
    assert set(topics) == {"__consumer_offsets"}
    started_ms = opened.pop("transaction_start_time_ms")
    assert before_ms <= started_ms <= int(time.time() * 1000)
    assert opened == {
        "error_code": NONE,
        "transactional_id": name,
        "transaction_state": "Ongoing",
        "transaction_timeout_ms": 54_321,
        "producer_id": pid,
        "producer_epoch": epoch,
    }

    assert end(wire, name, (pid, epoch))[0] == NONE
    until("it is complete", lambda: state_of(wire, name) == "CompleteCommit")
    (complete,) = describe(wire, name)
    assert complete["topics"] == []
    assert complete["transaction_start_time_ms"] == started_ms  # Kafka keeps it
    assert (complete["producer_id"], complete["producer_epoch"]) == (pid, epoch + 1)


def test_describe_transactions_returns_an_error_for_an_empty_or_unknown_id(
    wire: Wire, name: str
) -> None:
    begin(wire, name)

    known, empty, unknown = describe(wire, name, "", f"{name}-nobody")

    assert [each["error_code"] for each in (known, empty, unknown)] == [
        NONE,
        INVALID_REQUEST,
        TRANSACTIONAL_ID_NOT_FOUND,
    ]
    assert [each["transactional_id"] for each in (empty, unknown)] == ["", f"{name}-nobody"]
    assert {each["transaction_state"] for each in (empty, unknown)} == {""}


@pytest.mark.skipif(KIND == "kafka", reason="Kafka describes an id that is named twice twice")
def test_describe_transactions_returns_a_duplicate_id_once(wire: Wire, name: str) -> None:
    begin(wire, name)

    assert [each["transactional_id"] for each in describe(wire, name, name, "")] == [name, ""]
