"""EndTxn: every version, by the rules of its version, and what it leaves behind.

The tests pass on Apache Kafka 4.3.1 too (BROKER=kafka), but for what is said at one.
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
"""A producer id that nobody has."""
NOTHING = (-1, -1)
LAST_EPOCH = 32_766
"""The last that a producer is given."""


@pytest.fixture
def producer(wire: Wire, name: str) -> Pair:
    """The second epoch of an id, with a topic of the same name."""
    create_led(wire, name)
    begin(wire, name)
    return begin(wire, name)


def complete(wire: Wire, name: str) -> str:
    """The state, once it is a complete one."""
    until("it is complete", lambda: state_of(wire, name).startswith("Complete"))
    return state_of(wire, name)


# -- the order of the checks


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("committed", [True, False])
def test_first_the_id_then_the_producer_id_then_its_epoch_then_the_state(
    wire: Wire, name: str, producer: Pair, version: int, committed: bool
) -> None:
    for transactional_id, whose, code in wrong_producers(name, producer, version):
        answer = end(wire, transactional_id, whose, committed, version)
        assert answer == (code, NOTHING), whose
    assert state_of(wire, name) == "Empty"


# -- an id without a transaction


@pytest.mark.parametrize("version", OF_TV1)
@pytest.mark.parametrize("committed", [True, False])
def test_an_empty_id_has_nothing_to_end_by_the_old_rules(
    wire: Wire, name: str, producer: Pair, version: int, committed: bool
) -> None:
    assert end(wire, name, producer, committed, version) == (INVALID_TXN_STATE, NOTHING)
    assert state_of(wire, name) == "Empty"


def test_an_empty_abort_raises_the_epoch_and_marks_no_partition(
    wire: Wire, name: str, producer: Pair
) -> None:
    """Sentence 5: under TV2 an ABORT of nothing is done and bumps, a COMMIT of nothing is 48."""
    pid, epoch = producer
    assert end(wire, name, producer, True) == (INVALID_TXN_STATE, NOTHING)
    assert end(wire, name, producer, False) == (NONE, (pid, epoch + 1))
    assert complete(wire, name) == "CompleteAbort"

    assert end(wire, name, (pid, epoch + 1), False) == (NONE, (pid, epoch + 2))
    assert complete(wire, name) == "CompleteAbort"
    assert list_offset(wire, name, -1)["offset"] == 0
    assert describe(wire, name)[0]["producer_epoch"] == epoch + 2


# -- an answer that was lost


@pytest.mark.parametrize("version", OF_TV1)
def test_by_the_old_rules_the_same_end_may_be_asked_for_again(
    wire: Wire, name: str, producer: Pair, version: int
) -> None:
    for committed in (True, False):
        added(wire, name, producer, [(name, [0])])
        for _ in range(3):
            assert end(wire, name, producer, committed, version) == (NONE, NOTHING)
        assert complete(wire, name) == ("CompleteCommit" if committed else "CompleteAbort")
        other = end(wire, name, producer, not committed, version)
        assert other == (INVALID_TXN_STATE, NOTHING)


@pytest.mark.parametrize("committed", [True, False])
def test_by_the_new_rules_the_epoch_before_gets_the_same_answer_again(
    wire: Wire, name: str, producer: Pair, committed: bool
) -> None:
    """Sentence 4: a COMMIT again is 0 with the new pair for the old epoch, 48 for the new one."""
    pid, epoch = producer
    after = (pid, epoch + 1)
    added(wire, name, producer, [(name, [0])])
    for _ in range(3):
        assert end(wire, name, producer, committed) == (NONE, after)
    complete(wire, name)

    assert end(wire, name, after, True) == (INVALID_TXN_STATE, NOTHING)
    wrong = INVALID_TXN_STATE if committed or KIND == "kafka" else PRODUCER_FENCED
    assert end(wire, name, producer, not committed) == (wrong, NOTHING)
    for stale in ((pid, epoch - 1), (pid, epoch + 2)):
        assert end(wire, name, stale, committed) == (PRODUCER_FENCED, NOTHING)
    assert end(wire, name, after, False) == (NONE, (pid, epoch + 2))


@pytest.mark.parametrize("version", OF_TV1)
def test_the_end_of_a_transaction_that_was_begun_by_new_rules_follows_the_request(
    wire: Wire, name: str, producer: Pair, version: int
) -> None:
    """The level of the feature does not matter: the version does."""
    added(wire, name, producer, [(name, [0])])

    assert end(wire, name, producer, True, version) == (NONE, NOTHING)
    complete(wire, name)
    assert describe(wire, name)[0]["producer_epoch"] == producer[1]


# -- who is fenced


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("was_open", [True, False])
def test_a_fenced_producer_is_told_so_and_never_that_its_id_is_unknown(
    wire: Wire, name: str, producer: Pair, version: int, was_open: bool
) -> None:
    """Sentence 2: EndTxn 90, or 47 before version 2; AddPartitions alike; Produce 47."""
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


# -- what it leaves behind


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("committed", [True, False])
def test_every_version_ends_what_was_written(
    wire: Wire, name: str, producer: Pair, version: int, committed: bool
) -> None:
    added(wire, name, producer, [(name, [0])])
    assert send(wire, name, producer, name, 0, 0, 11, b"a", b"b")["error_code"] == NONE
    assert fetch(wire, name, isolation_level=1)["last_stable_offset"] == 0

    code, after = end(wire, name, producer, committed, version)
    assert code == NONE
    assert after == (NOTHING if version < 5 else (producer[0], producer[1] + 1))
    assert complete(wire, name) == ("CompleteCommit" if committed else "CompleteAbort")
    read = fetch(wire, name, isolation_level=1)
    assert (read["last_stable_offset"], read["high_watermark"]) == (3, 3)
    aborted = [] if committed else [{"producer_id": producer[0], "first_offset": 0}]
    assert read["aborted_transactions"] == aborted


# -- epochs run out


@pytest.mark.campaign
def test_when_the_epochs_run_out_the_producer_goes_on_with_another_id(
    wire: Wire, name: str
) -> None:
    """Sentence 12: at epoch 32766 a commit answers another id with epoch 0, again for its retry."""
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
    assert complete(wire, name) == "CompleteCommit"
    assert producers(wire, name) == {pid: LAST_EPOCH + 1}
    assert end(wire, name, (pid, epoch), False)[0] == INVALID_TXN_STATE
    assert init_once(wire, name, 4, (pid, epoch))["error_code"] in (NONE, PRODUCER_FENCED)


def producers(wire: Wire, topic: str) -> dict[int, int]:
    """The epoch of each producer of a partition."""
    asked = {"topics": [{"name": topic, "partition_indexes": [0]}]}
    (found,) = wire.call("DescribeProducers", 0, asked)["topics"][0]["partitions"]
    return {each["producer_id"]: each["producer_epoch"] for each in found["active_producers"]}
