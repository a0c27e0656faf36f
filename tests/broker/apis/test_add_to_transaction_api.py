"""Tests AddPartitionsToTxn and AddOffsetsToTxn in every version, and the order of their checks. The
tests also pass on Apache Kafka 4.3.1 (BROKER=kafka)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from protocol.errors import (
    CONCURRENT_TRANSACTIONS,
    INVALID_PRODUCER_ID_MAPPING,
    INVALID_REQUEST,
    NONE,
    OPERATION_NOT_ATTEMPTED,
    PRODUCER_FENCED,
    TOPIC_AUTHORIZATION_FAILED,
    TRANSACTION_ABORTABLE,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from tests.broker.transactional_calls import (
    GROUP,
    NOBODY,
    PASSING,
    Pair,
    add,
    add_as_broker,
    add_offsets,
    added,
    begin,
    create_led,
    describe,
    end,
    find,
    state_of,
    transaction,
    wrong_producers,
)
from tests.brokers import KIND, Broker
from tests.waiting import until
from tests.wire import Wire

OF_CLIENTS = range(4)
OF_BROKERS = range(4, 6)
OF_OFFSETS = range(5)


@pytest.fixture
def producer(wire: Wire, name: str) -> Pair:
    """Initializes the transactional id ``name`` twice, and returns the producer id and the epoch of
    the second response. Creates the topic ``name`` with three partitions."""
    create_led(wire, name, 3)
    begin(wire, name)
    return begin(wire, name)


@pytest.mark.parametrize("version", OF_CLIENTS)
def test_add_partitions_adds_a_duplicate_partition_once(
    wire: Wire, name: str, producer: Pair, version: int
) -> None:
    assert add(wire, name, producer, [(name, [0, 0]), (name, [2])], version) == {
        (name, 0): NONE,
        (name, 2): NONE,
    }
    assert add(wire, name, producer, [(name, [2, 1])], version) == {(name, 1): 0, (name, 2): 0}

    (described,) = describe(wire, name)
    (topic,) = described["topics"]
    assert (topic["topic"], sorted(topic["partitions"])) == (name, [0, 1, 2])
    assert described["transaction_state"] == "Ongoing"


@pytest.mark.proves("transactions 7")
@pytest.mark.parametrize("version", OF_CLIENTS)
def test_add_partitions_adds_no_partition_when_one_is_invalid(
    wire: Wire, name: str, producer: Pair, version: int
) -> None:
    wanted = [("nowhere", [0]), (name, [0, 3, -1]), ("__consumer_offsets", [0])]
    refused = {
        ("nowhere", 0): UNKNOWN_TOPIC_OR_PARTITION,
        (name, 0): OPERATION_NOT_ATTEMPTED,
        (name, 3): UNKNOWN_TOPIC_OR_PARTITION,
        (name, -1): UNKNOWN_TOPIC_OR_PARTITION,
        ("__consumer_offsets", 0): TOPIC_AUTHORIZATION_FAILED,
    }

    for transactional_id, whose in (
        (name, producer),
        (name, (NOBODY, 0)),
        (f"{name}-unknown", producer),
        ("", producer),
    ):
        assert add(wire, transactional_id, whose, wanted, version) == refused
    assert state_of(wire, name) == "Empty"


@pytest.mark.parametrize("version", OF_CLIENTS)
@pytest.mark.parametrize(
    "topic", ["__consumer_offsets", "__transaction_state", "__share_group_state"]
)
def test_add_partitions_request_of_a_client_is_refused_for_internal_topics(
    wire: Wire, name: str, producer: Pair, version: int, topic: str
) -> None:
    """The request is refused whether or not the internal topic and the partition exist."""
    codes = add(wire, name, producer, [(topic, [0, 4711])], version)

    assert set(codes.values()) == {TOPIC_AUTHORIZATION_FAILED}


@pytest.mark.parametrize("version", OF_CLIENTS)
def test_add_partitions_checks_transactional_id_then_producer_id_then_epoch(
    wire: Wire, name: str, producer: Pair, version: int
) -> None:
    wrong = wrong_producers(name, producer, version)
    for transactional_id, whose, code in (*wrong, (name, producer, NONE)):
        codes = add(wire, transactional_id, whose, [(name, [0, 1])], version)
        assert codes == {(name, 0): code, (name, 1): code}, whose


def test_add_partitions_with_an_empty_list_of_partitions_begins_a_transaction(
    wire: Wire, name: str, producer: Pair
) -> None:
    assert add(wire, name, producer, []) == {}
    assert state_of(wire, name) == "Ongoing"
    assert add(wire, name, producer, [(name, [])]) == {}
    assert end(wire, name, producer)[0] == NONE
    until("it is complete", lambda: state_of(wire, name) == "CompleteCommit")


# -- requests of brokers


@pytest.mark.parametrize("version", OF_BROKERS)
def test_add_partitions_request_of_a_broker_may_contain_several_transactions(
    wire: Wire, name: str, producer: Pair, version: int
) -> None:
    other = f"{name}-other"
    second = begin(wire, other)
    added(wire, name, producer, [(name, [0])])
    pid, epoch = producer

    def ask(id_: str, whose: Pair, topics: list[tuple[str, list[int]]], look: bool) -> object:
        return transaction(id_, whose, topics, verify_only=look)

    answers = add_as_broker(
        wire,
        ask(name, producer, [(name, [0, 1])], True),
        ask(other, second, [(name, [2])], False),
        ask(f"{name}-unknown", producer, [(name, [0])], True),
        ask("", producer, [(name, [0])], True),
        version=version,
    )

    assert dict(answers) == {
        name: {(name, 0): NONE, (name, 1): TRANSACTION_ABORTABLE},
        other: {(name, 2): NONE},
        f"{name}-unknown": {(name, 0): INVALID_PRODUCER_ID_MAPPING},
        "": {(name, 0): INVALID_REQUEST},
    }
    assert describe(wire, other)[0]["topics"] == [{"topic": name, "partitions": [2]}]
    assert describe(wire, name)[0]["topics"] == [{"topic": name, "partitions": [0]}]
    for look in (True, False):
        for whose, topics, codes in (
            ((pid, epoch - 1), [(name, [0])], {(name, 0): PRODUCER_FENCED}),
            ((NOBODY, epoch - 1), [(name, [0])], {(name, 0): INVALID_PRODUCER_ID_MAPPING}),
            (
                (NOBODY, 0),
                [(name, [0, 3])],
                {(name, 0): OPERATION_NOT_ATTEMPTED, (name, 3): UNKNOWN_TOPIC_OR_PARTITION},
            ),
        ):
            asked = ask(name, whose, topics, look)
            assert add_as_broker(wire, asked, version=version) == [(name, codes)]


@pytest.mark.parametrize("version", OF_BROKERS)
def test_add_partitions_request_of_a_broker_may_contain_internal_topics(
    wire: Wire, name: str, producer: Pair, version: int
) -> None:
    find(wire, name, GROUP)  # creates the offsets topic
    look = transaction(name, producer, [("__transaction_state", [0])], verify_only=True)
    more = transaction(name, producer, [("__consumer_offsets", [0])], verify_only=False)

    ((_, codes),) = add_as_broker(wire, look, version=version)
    assert codes == {("__transaction_state", 0): TRANSACTION_ABORTABLE}
    assert add_as_broker(wire, more, version=version) == [(name, {("__consumer_offsets", 0): NONE})]


# -- offsets


@pytest.mark.parametrize("version", OF_OFFSETS)
def test_add_offsets_checks_the_producer_like_add_partitions(
    wire: Wire, name: str, producer: Pair, version: int
) -> None:
    for transactional_id, whose, code in wrong_producers(name, producer, version):
        assert add_offsets(wire, transactional_id, whose, name, version) == code, whose
    assert state_of(wire, name) == "Empty"

    for group_id in (name, name, "", f"{name}-other"):
        assert add_offsets(wire, name, producer, group_id, version) == NONE
    (described,) = describe(wire, name)
    assert [topic["topic"] for topic in described["topics"]] == ["__consumer_offsets"]


@pytest.mark.skipif(KIND != "muster", reason="Kafka makes the topic for FindCoordinator alone")
def test_add_offsets_creates_the_offsets_topic(brokers: Callable[..., Broker]) -> None:
    """A producer sends AddOffsetsToTxn before FindCoordinator for the group."""
    broker = brokers()
    with Wire(broker.port) as wire:
        producer = begin(wire, "t")
        topics = wire.call("Metadata", 12, {"topics": None})["topics"]
        assert "__consumer_offsets" not in [topic["name"] for topic in topics]

        assert add_offsets(wire, "t", producer, "g") == NONE

        topics = wire.call("Metadata", 12, {"topics": None})["topics"]
        assert "__consumer_offsets" in [topic["name"] for topic in topics]
        (described,) = describe(wire, "t")
        assert [topic["topic"] for topic in described["topics"]] == ["__consumer_offsets"]


# -- while a transaction is being completed


def test_add_partitions_succeeds_after_the_previous_transaction_completes(
    wire: Wire, name: str, producer: Pair
) -> None:
    """While the broker writes the markers, every request gets CONCURRENT_TRANSACTIONS, even a
    request with a wrong producer id.

    Muster has usually written the markers before it responds to EndTxn.
    """
    added(wire, name, producer, [(name, [0, 1, 2])])
    code, after = end(wire, name, producer)
    assert code == NONE

    wrong = add(wire, name, (NOBODY, 0), [(name, [0])])
    assert set(wrong.values()) <= {CONCURRENT_TRANSACTIONS, INVALID_PRODUCER_ID_MAPPING}
    final: list[int] = []

    def is_final() -> bool:
        final.extend(add(wire, name, after, [(name, [0])]).values())
        return final[-1] not in PASSING

    until("the next transaction begins", is_final)
    assert final[-1] == NONE
    assert set(final[:-1]) <= {CONCURRENT_TRANSACTIONS}
