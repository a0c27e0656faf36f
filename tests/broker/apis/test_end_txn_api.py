"""Tests the checks and effects of EndTxn in every version.

The tests also pass on Apache Kafka 4.3.1 (BROKER=kafka). Only the error code of an EndTxn COMMIT
with the old epoch after an ABORT differs.
"""

from __future__ import annotations

import pytest

from protocol.errors import (
    INVALID_PRODUCER_EPOCH,
    INVALID_TXN_STATE,
    NONE,
    PRODUCER_FENCED,
)
from tests.broker.topic_calls import fetch, list_offset
from tests.broker.transactional_calls import (
    Pair,
    add,
    add_offsets,
    added,
    begin,
    create_led,
    describe,
    end,
    fenced,
    init,
    init_once,
    send,
    state_of,
    wrong_producers,
)
from tests.brokers import KIND
from tests.waiting import until
from tests.wire import Wire

VERSIONS = range(6)
OF_TV1, OF_TV2 = range(5), range(5, 6)
NOTHING = (-1, -1)
LAST_EPOCH = 32_766
"""The last epoch that a producer gets. The marker of its transaction has the next epoch."""


@pytest.fixture
def producer(wire: Wire, name: str) -> Pair:
    """Creates the topic ``name``. Initializes the transactional id ``name`` twice, and returns the
    producer id and the epoch of the second response."""
    create_led(wire, name)
    begin(wire, name)
    return begin(wire, name)


def until_complete(wire: Wire, name: str) -> str:
    """Waits until the transaction is complete. Returns its state."""
    until("it is complete", lambda: state_of(wire, name).startswith("Complete"))
    return state_of(wire, name)


# -- the order of the checks


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("committed", [True, False])
def test_end_txn_checks_transactional_id_then_producer_id_then_epoch(
    wire: Wire, name: str, producer: Pair, version: int, committed: bool
) -> None:
    for transactional_id, whose, code in wrong_producers(name, producer, version):
        answer = end(wire, transactional_id, whose, committed, version)
        assert answer == (code, NOTHING), whose
    assert state_of(wire, name) == "Empty"


# -- an id without a transaction


@pytest.mark.proves("transactions 5")
@pytest.mark.parametrize("version", OF_TV1)
@pytest.mark.parametrize("committed", [True, False])
def test_tv1_end_txn_is_refused_when_no_transaction_is_open(
    wire: Wire, name: str, producer: Pair, version: int, committed: bool
) -> None:
    assert end(wire, name, producer, committed, version) == (INVALID_TXN_STATE, NOTHING)
    assert state_of(wire, name) == "Empty"


@pytest.mark.proves("transactions 5")
def test_tv2_abort_succeeds_and_commit_fails_when_no_transaction_is_open(
    wire: Wire, name: str, producer: Pair
) -> None:
    pid, epoch = producer
    assert end(wire, name, producer, True) == (INVALID_TXN_STATE, NOTHING)
    assert end(wire, name, producer, False) == (NONE, (pid, epoch + 1))
    assert until_complete(wire, name) == "CompleteAbort"

    assert end(wire, name, (pid, epoch + 1), False) == (NONE, (pid, epoch + 2))
    assert until_complete(wire, name) == "CompleteAbort"
    assert list_offset(wire, name, -1)["offset"] == 0
    assert describe(wire, name)[0]["producer_epoch"] == epoch + 2


# -- repeated requests, as after a lost response


@pytest.mark.proves("transactions 4")
@pytest.mark.parametrize("version", OF_TV1)
def test_tv1_end_txn_can_be_repeated(wire: Wire, name: str, producer: Pair, version: int) -> None:
    for committed in (True, False):
        added(wire, name, producer, [(name, [0])])
        for _ in range(3):
            assert end(wire, name, producer, committed, version) == (NONE, NOTHING)
        assert until_complete(wire, name) == ("CompleteCommit" if committed else "CompleteAbort")
        other = end(wire, name, producer, not committed, version)
        assert other == (INVALID_TXN_STATE, NOTHING)


@pytest.mark.proves("transactions 4")
@pytest.mark.parametrize("committed", [True, False])
def test_tv2_end_txn_retried_with_the_old_epoch_gets_the_same_response(
    wire: Wire, name: str, producer: Pair, committed: bool
) -> None:
    pid, epoch = producer
    after = (pid, epoch + 1)
    added(wire, name, producer, [(name, [0])])
    for _ in range(3):
        assert end(wire, name, producer, committed) == (NONE, after)
    until_complete(wire, name)

    assert end(wire, name, after, True) == (INVALID_TXN_STATE, NOTHING)
    wrong = INVALID_TXN_STATE if committed or KIND == "kafka" else PRODUCER_FENCED
    assert end(wire, name, producer, not committed) == (wrong, NOTHING)
    for stale in ((pid, epoch - 1), (pid, epoch + 2)):
        assert end(wire, name, stale, committed) == (PRODUCER_FENCED, NOTHING)
    assert end(wire, name, after, False) == (NONE, (pid, epoch + 2))


@pytest.mark.parametrize("version", OF_TV1)
def test_end_txn_below_version_5_does_not_raise_the_epoch(
    wire: Wire, name: str, producer: Pair, version: int
) -> None:
    added(wire, name, producer, [(name, [0])])

    assert end(wire, name, producer, True, version) == (NONE, NOTHING)
    until_complete(wire, name)
    assert describe(wire, name)[0]["producer_epoch"] == producer[1]


# -- fenced producers


@pytest.mark.proves("transactions 2")
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("was_open", [True, False])
def test_fenced_producer_gets_a_fencing_error_from_each_api(
    wire: Wire, name: str, producer: Pair, version: int, was_open: bool
) -> None:
    if was_open:
        added(wire, name, producer, [(name, [0])])
        assert send(wire, name, producer, name)["error_code"] == NONE
    fencing = init(wire, name)
    assert fencing[1] > producer[1]

    for committed in (True, False):
        answer = end(wire, name, producer, committed, version)
        assert answer == (fenced(version), NOTHING)
    old = min(version, 3)
    assert set(add(wire, name, producer, [(name, [0])], old).values()) == {fenced(old)}
    old = min(version, 4)
    assert add_offsets(wire, name, producer, name, old) == fenced(old)
    if was_open:
        produced = send(wire, name, producer, name, sequence=1)
        assert produced["error_code"] == INVALID_PRODUCER_EPOCH


# -- effects


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("committed", [True, False])
def test_end_txn_commits_or_aborts_records_in_every_version(
    wire: Wire, name: str, producer: Pair, version: int, committed: bool
) -> None:
    added(wire, name, producer, [(name, [0])])
    assert send(wire, name, producer, name, 0, 0, 11, b"a", b"b")["error_code"] == NONE
    assert fetch(wire, name, isolation_level=1)["last_stable_offset"] == 0

    code, after = end(wire, name, producer, committed, version)
    assert code == NONE
    assert after == (NOTHING if version < 5 else (producer[0], producer[1] + 1))
    assert until_complete(wire, name) == ("CompleteCommit" if committed else "CompleteAbort")
    read = fetch(wire, name, isolation_level=1)
    assert (read["last_stable_offset"], read["high_watermark"]) == (3, 3)
    aborted = [] if committed else [{"producer_id": producer[0], "first_offset": 0}]
    assert read["aborted_transactions"] == aborted


# -- exhausted epochs


@pytest.mark.proves("transactions 12")
@pytest.mark.campaign
def test_end_txn_commit_at_the_maximum_epoch_returns_a_new_producer_id(
    wire: Wire, name: str
) -> None:
    create_led(wire, name)
    pid, epoch = begin(wire, name)
    raising = {"transactional_id": name, "transaction_timeout_ms": 60_000}
    while epoch < LAST_EPOCH:
        asked = min(1000, LAST_EPOCH - epoch)
        for _ in range(asked):
            wire.send("InitProducerId", 4, raising)
        for _ in range(asked):
            epoch += wire.receive()[1]["error_code"] == NONE
    assert describe(wire, name)[0]["producer_epoch"] == LAST_EPOCH

    added(wire, name, (pid, epoch), [(name, [0])])
    assert send(wire, name, (pid, epoch), name)["error_code"] == NONE
    code, (next_pid, next_epoch) = end(wire, name, (pid, epoch))

    assert (code, next_epoch) == (NONE, 0)
    assert next_pid != pid
    assert end(wire, name, (pid, epoch)) == (NONE, (next_pid, 0))
    assert until_complete(wire, name) == "CompleteCommit"
    assert producers(wire, name) == {pid: LAST_EPOCH + 1}
    assert end(wire, name, (pid, epoch), False)[0] == INVALID_TXN_STATE
    assert init_once(wire, name, 4, (pid, epoch))["error_code"] in (NONE, PRODUCER_FENCED)


def producers(wire: Wire, topic: str) -> dict[int, int]:
    asked = {"topics": [{"name": topic, "partition_indexes": [0]}]}
    (found,) = wire.call("DescribeProducers", 0, asked)["topics"][0]["partitions"]
    return {each["producer_id"]: each["producer_epoch"] for each in found["active_producers"]}
