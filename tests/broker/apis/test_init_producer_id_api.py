"""Tests InitProducerId: every version, the order of its checks, and retries (KIP-360).

The tests that use the shared broker also pass on Apache Kafka 4.3.1 (BROKER=kafka). Kafka supports
only versions 0 to 5, because version 6 is unstable there.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from protocol.errors import (
    CONCURRENT_TRANSACTIONS,
    INVALID_PRODUCER_EPOCH,
    INVALID_REQUEST,
    INVALID_TRANSACTION_TIMEOUT,
    NONE,
    PRODUCER_FENCED,
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    UNSUPPORTED_VERSION,
)
from tests.broker.transactional_calls import (
    PASSING,
    added,
    begin,
    create_led,
    end,
    find,
    init,
    init_once,
    state_of,
)
from tests.brokers import KIND, Broker
from tests.waiting import until
from tests.wire import Wire

VERSIONS = range(6 if KIND == "kafka" else 7)
WITH_EPOCH = VERSIONS[3:]
"""The versions whose requests contain a producer id and an epoch (KIP-360)."""
TOO_LONG_MS = 900_001
"""A timeout that is one millisecond above transaction.max.timeout.ms."""
muster_alone = pytest.mark.skipif(KIND == "kafka", reason="Kafka 4.3.1 does not serve version 6")


@pytest.mark.parametrize("version", VERSIONS)
def test_init_without_transactional_id_returns_a_new_producer_id(wire: Wire, version: int) -> None:
    answers = [init_once(wire, None, version, timeout_ms=0) for _ in range(3)]

    assert [(a["error_code"], a["producer_epoch"]) for a in answers] == [(NONE, 0)] * 3
    assert len({a["producer_id"] for a in answers}) == 3


@pytest.mark.parametrize("version", WITH_EPOCH)
def test_producer_id_and_epoch_are_ignored_without_a_transactional_id(
    wire: Wire, version: int
) -> None:
    never_allocated = 1 << 40
    answer = init_once(wire, None, version, (never_allocated, 3), timeout_ms=TOO_LONG_MS)

    assert (answer["error_code"], answer["producer_epoch"]) == (NONE, 0)
    assert answer["producer_id"] < never_allocated


@pytest.mark.campaign
def test_producer_ids_are_unique_across_restarts(brokers: Callable[..., Broker]) -> None:
    broker = brokers()
    given = []
    for end_broker in (broker.kill, broker.stop, broker.kill):
        with Wire(broker.port) as wire:
            given += [init_once(wire, None)["producer_id"] for _ in range(2)]
            given.append(begin(wire, f"id-{len(given)}")[0])
        end_broker()
        broker.start()

    assert len(set(given)) == len(given)


@pytest.mark.parametrize("version", VERSIONS)
def test_each_init_of_a_transactional_id_increments_the_epoch(
    wire: Wire, name: str, version: int
) -> None:
    first = begin(wire, name, version=version)

    assert [init(wire, name, version) for _ in range(2)] == [(first[0], 1), (first[0], 2)]
    assert first[1] == 0


# -- the order of the checks


@pytest.mark.parametrize("version", VERSIONS)
def test_empty_transactional_id_is_refused_before_the_timeout_is_checked(
    wire: Wire, version: int
) -> None:
    for timeout_ms in (1000, 0, TOO_LONG_MS):
        answer = init_once(wire, "", version, timeout_ms=timeout_ms)

        assert (answer["error_code"], answer["producer_id"]) == (INVALID_REQUEST, -1)
        assert answer["producer_epoch"] == -1


@pytest.mark.parametrize("version", WITH_EPOCH)
@pytest.mark.parametrize("half", [(5, -1), (-1, 5)])
def test_init_refuses_producer_id_and_epoch_unless_both_are_set(
    wire: Wire, name: str, version: int, half: tuple[int, int]
) -> None:
    for transactional_id, timeout_ms in ((None, 1000), ("", 1000), (name, 0), (name, 1000)):
        answer = init_once(wire, transactional_id, version, half, timeout_ms)

        assert (answer["error_code"], answer["producer_id"]) == (INVALID_REQUEST, -1)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("timeout_ms", [0, -1, -(1 << 31), TOO_LONG_MS, (1 << 31) - 1])
def test_transaction_timeout_out_of_bounds_creates_no_transactional_id(
    wire: Wire, name: str, version: int, timeout_ms: int
) -> None:
    find(wire, name)

    answer = init_once(wire, name, version, timeout_ms=timeout_ms)

    assert (answer["error_code"], answer["producer_id"]) == (INVALID_TRANSACTION_TIMEOUT, -1)
    assert state_of(wire, name) == ""


def test_transaction_timeout_equal_to_the_maximum_is_accepted(wire: Wire, name: str) -> None:
    assert begin(wire, name, timeout_ms=TOO_LONG_MS - 1)[1] == 0


@muster_alone
def test_two_phase_commit_is_refused_before_the_timeout_is_checked(wire: Wire, name: str) -> None:
    """transaction.two.phase.commit.enable (KIP-939) is not set, so clients may not use two-phase
    commit."""
    off, unsupported = TRANSACTIONAL_ID_AUTHORIZATION_FAILED, UNSUPPORTED_VERSION
    for transactional_id, enabled, kept, timeout_ms, code in (
        (name, True, False, 1000, off),
        (name, True, True, 0, off),
        (name, False, True, 1000, unsupported),
        (name, False, True, 0, unsupported),
        ("", True, True, 1000, INVALID_REQUEST),
        (None, True, True, 1000, NONE),
    ):
        flags = {"enable2_pc": enabled, "keep_prepared_txn": kept}
        answer = init_once(wire, transactional_id, 6, timeout_ms=timeout_ms, **flags)

        assert answer["error_code"] == code, (transactional_id, flags)
        assert answer["ongoing_txn_producer_id"] == answer["ongoing_txn_producer_epoch"] == -1


# -- KIP-360


@pytest.mark.proves("transactions 3")
@pytest.mark.parametrize("version", WITH_EPOCH)
def test_repeated_init_with_the_same_epoch_returns_the_same_next_epoch(
    wire: Wire, name: str, version: int
) -> None:
    pid, epoch = begin(wire, name, version=version)

    asked = [init_once(wire, name, version, (pid, epoch)) for _ in range(3)]

    assert [(a["error_code"], a["producer_id"], a["producer_epoch"]) for a in asked] == [
        (NONE, pid, epoch + 1)
    ] * 3
    assert init(wire, name, version) == (pid, epoch + 2)
    fenced = INVALID_PRODUCER_EPOCH if version < 4 else PRODUCER_FENCED
    for stale in ((pid, epoch), (pid, epoch + 1), (pid, epoch + 3), (pid + 1_000_000, epoch + 2)):
        answer = init_once(wire, name, version, stale)
        assert (answer["error_code"], answer["producer_id"]) == (fenced, -1), stale


@pytest.mark.parametrize("version", WITH_EPOCH)
def test_init_of_unknown_transactional_id_ignores_producer_id_and_epoch(
    wire: Wire, name: str, version: int
) -> None:
    pid, epoch = begin(wire, name, version=version, producer=(777_777, 3))

    assert (pid != 777_777, epoch) == (True, 0)


# -- open transactions


@pytest.fixture
def topic(wire: Wire, name: str) -> str:
    create_led(wire, name)
    return name


@pytest.mark.proves("transactions 1")
@pytest.mark.parametrize("version", VERSIONS)
def test_init_aborts_an_open_transaction_then_returns_a_higher_epoch(
    wire: Wire, topic: str, version: int
) -> None:
    pid, epoch = begin(wire, topic, version=version)
    added(wire, topic, (pid, epoch), [(topic, [0])])

    first = init_once(wire, topic, version)
    assert (first["error_code"], first["producer_id"]) == (CONCURRENT_TRANSACTIONS, -1)

    same, higher = init(wire, topic, version)
    assert (same, higher > epoch + 1) == (pid, True)
    assert state_of(wire, topic) == "Empty"


@pytest.mark.parametrize("version", WITH_EPOCH)
def test_init_producer_id_with_an_epoch_aborts_the_open_transaction_of_its_sender(
    wire: Wire, topic: str, version: int
) -> None:
    """The first response is CONCURRENT_TRANSACTIONS; the repeated request succeeds."""
    pid, epoch = begin(wire, topic)
    added(wire, topic, (pid, epoch), [(topic, [0])])
    asked: list[int] = []

    def final() -> bool:
        asked.append(init_once(wire, topic, version, (pid, epoch))["error_code"])
        return asked[-1] not in PASSING

    until("a final answer", final)
    assert asked[0] == CONCURRENT_TRANSACTIONS
    assert asked[-1] == NONE


def test_init_after_a_completed_transaction_increments_the_epoch(wire: Wire, topic: str) -> None:
    producer = begin(wire, topic)
    added(wire, topic, producer, [(topic, [0])])
    code, after = end(wire, topic, producer)

    assert code == NONE
    assert init(wire, topic) == (after[0], after[1] + 1)
