"""Tests transactional Produce requests: accepted and refused batches, in every version that
supports transactions."""

from __future__ import annotations

import struct

import pytest

from protocol.errors import (
    CONCURRENT_TRANSACTIONS,
    INVALID_PRODUCER_EPOCH,
    INVALID_PRODUCER_ID_MAPPING,
    INVALID_RECORD,
    INVALID_TOPIC_EXCEPTION,
    INVALID_TXN_STATE,
    NONE,
    OUT_OF_ORDER_SEQUENCE_NUMBER,
    TRANSACTION_ABORTABLE,
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
)
from tests.broker.topic_calls import create_topic, fetch, list_offset, produce
from tests.broker.transactional import (
    committed_values,
    ended,
    initialized,
    last_stable_offset,
)
from tests.brokers import Broker
from tests.wire import Wire, batch, values_of

TV1_VERSIONS = range(3, 12)
TV2_VERSIONS = (12, 13)
VERSIONS = (*TV1_VERSIONS, *TV2_VERSIONS)


def rules_of(version: int) -> int:
    return 2 if version >= 12 else 1


def end_offset(wire: Wire, name: str, partition: int = 0) -> int:
    offset: int = list_offset(wire, name, -1, partition=partition)["offset"]
    return offset


# -- checks of the whole request


@pytest.mark.proves("transactions 15")
@pytest.mark.parametrize("version", VERSIONS)
def test_transactional_batch_is_refused_when_transactional_id_is_missing(
    wire: Wire, name: str, version: int
) -> None:
    topic_id = create_topic(wire, name, 2)["topic_id"]
    producer = initialized(wire, name, rules_of(version))
    transactional, plain = producer.records(name, 0, b"a"), batch(b"b")

    answers = producer.produce_all(
        {(name, 1): plain, (name, 0): transactional},
        version,
        topic_id=topic_id,
        transactional_id=None,
    )

    assert {each["error_code"] for each in answers} == {TRANSACTIONAL_ID_AUTHORIZATION_FAILED}
    assert end_offset(wire, name, 0) == end_offset(wire, name, 1) == 0, "not even the plain one"


@pytest.mark.proves("transactions 31")
@pytest.mark.parametrize("version", VERSIONS)
def test_produce_with_batches_of_two_epochs_is_refused(wire: Wire, name: str, version: int) -> None:
    topic_id = create_topic(wire, name, 2)["topic_id"]
    producer = initialized(wire, name, rules_of(version))
    producer.add({name: [0, 1]})
    ours = producer.records(name, 0, b"a")
    theirs = producer.records(name, 1, b"b", producer_epoch=producer.epoch + 1)

    answers = producer.produce_all({(name, 0): ours, (name, 1): theirs}, version, topic_id=topic_id)

    assert [each["error_code"] for each in answers] == [INVALID_PRODUCER_ID_MAPPING] * 2
    assert end_offset(wire, name, 0) == end_offset(wire, name, 1) == 0


@pytest.mark.parametrize("version", VERSIONS)
def test_produce_ignores_transactional_id_when_batches_are_not_transactional(
    wire: Wire, name: str, version: int
) -> None:
    topic_id = create_topic(wire, name)["topic_id"]

    answer = produce(
        wire, name, batch(b"v"), version=version, topic_id=topic_id, transactional_id="anybody"
    )

    assert (answer["error_code"], answer["base_offset"]) == (NONE, 0)


@pytest.mark.proves("transactions 15")
@pytest.mark.parametrize("version", VERSIONS)
def test_control_batch_of_a_client_is_refused(wire: Wire, name: str, version: int) -> None:
    topic_id = create_topic(wire, name)["topic_id"]
    producer = initialized(wire, name, rules_of(version))
    producer.add({name: [0]})
    marker = producer.records(name, 0, b"v", is_control=True)

    [answer] = producer.produce_all({(name, 0): marker}, version, topic_id=topic_id)

    assert answer["error_code"] == INVALID_RECORD
    assert end_offset(wire, name) == 0


# -- partitions inside and outside the transaction


@pytest.mark.proves("transactions 9")
@pytest.mark.parametrize("version", TV1_VERSIONS)
def test_tv1_produce_to_a_partition_that_was_not_added_is_refused(
    wire: Wire, name: str, version: int
) -> None:
    create_topic(wire, name, 2)
    produce(wire, name, batch(b"before"))
    producer = initialized(wire, name, rules=1)
    producer.add({name: [1]})

    answer = producer.produce(name, b"v", version=version)

    told = TRANSACTION_ABORTABLE if version >= 11 else INVALID_TXN_STATE
    assert answer["error_code"] == told
    assert end_offset(wire, name) == last_stable_offset(wire, name) == 1


@pytest.mark.parametrize("version", TV1_VERSIONS)
def test_tv1_produce_to_an_added_partition_is_appended(wire: Wire, name: str, version: int) -> None:
    create_topic(wire, name)
    producer = initialized(wire, name, rules=1)
    producer.add({name: [0]})

    assert producer.produce(name, b"a", b"b", version=version)["base_offset"] == 0
    assert producer.produce(name, b"c", version=version)["base_offset"] == 2
    assert last_stable_offset(wire, name) == 0
    assert producer.end(commit=True) == NONE

    ended(wire, name)
    answer = fetch(wire, name, isolation_level=1)
    assert committed_values(answer) == [b"a", b"b", b"c"]
    assert answer["high_watermark"] == 4, "the marker has an offset of its own"


@pytest.mark.parametrize("version", TV2_VERSIONS)
def test_tv2_produce_adds_its_partitions_to_the_transaction(
    wire: Wire, name: str, version: int
) -> None:
    topic_id = create_topic(wire, name, 3)["topic_id"]
    producer = initialized(wire, name)
    parts = {(name, index): producer.records(name, index, b"%d" % index) for index in range(3)}

    answers = producer.produce_all(parts, version, topic_id=topic_id)

    assert [each["error_code"] for each in answers] == [NONE] * 3
    asked = {"transactional_ids": [name]}
    [described] = wire.call("DescribeTransactions", 0, asked)["transaction_states"]
    assert described["transaction_state"] == "Ongoing"
    [touched] = described["topics"]
    assert (touched["topic"], sorted(touched["partitions"])) == (name, [0, 1, 2])
    assert producer.end(commit=True) == NONE
    for index in range(3):
        ended(wire, name, index)
        answer = fetch(wire, name, partition=index, isolation_level=1)
        assert committed_values(answer) == [b"%d" % index]


@pytest.mark.parametrize("version", VERSIONS)
def test_transactional_produce_to_an_unknown_partition_is_an_error(
    wire: Wire, name: str, version: int
) -> None:
    topic_id = create_topic(wire, name)["topic_id"]
    producer = initialized(wire, name, rules_of(version))
    if version in TV1_VERSIONS:
        producer.add({name: [0]})
    parts = {(name, index): producer.records(name, index, b"v") for index in (0, 7)}

    there, missing = producer.produce_all(parts, version, topic_id=topic_id)

    assert (there["error_code"], missing["error_code"]) == (NONE, 3)


@pytest.mark.proves("transactions 2")
@pytest.mark.parametrize("version", VERSIONS)
def test_produce_of_a_fenced_producer_gets_invalid_producer_epoch(
    wire: Wire, name: str, version: int
) -> None:
    topic_id = create_topic(wire, name)["topic_id"]
    zombie = initialized(wire, name, rules_of(version))
    initialized(wire, name)

    [answer] = zombie.produce_all(
        {(name, 0): zombie.records(name, 0, b"v")}, version, topic_id=topic_id
    )

    assert answer["error_code"] == INVALID_PRODUCER_EPOCH
    assert end_offset(wire, name) == 0


@pytest.mark.parametrize("version", TV1_VERSIONS)
def test_tv1_produce_to_an_internal_topic_is_refused(wire: Wire, name: str, version: int) -> None:
    """A client can't add an internal topic to a transaction. The broker first checks that the
    partition is in the transaction, and returns the error of this check."""
    wire.call("FindCoordinator", 2, {"key": name, "key_type": 0})
    producer = initialized(wire, name, rules=1)

    answer = producer.produce("__consumer_offsets", b"v", version=version)

    told = TRANSACTION_ABORTABLE if version >= 11 else INVALID_TXN_STATE
    assert answer["error_code"] == told


def test_tv2_produce_to_an_internal_topic_is_refused(wire: Wire, name: str) -> None:
    wire.call("FindCoordinator", 2, {"key": name, "key_type": 0})
    producer = initialized(wire, name)

    assert producer.produce("__consumer_offsets", b"v")["error_code"] == INVALID_TOPIC_EXCEPTION
    asked = {"transactional_ids": [name]}
    [described] = wire.call("DescribeTransactions", 0, asked)["transaction_states"]
    assert described["transaction_state"] == "Empty", "nothing was added"


@pytest.mark.parametrize("version", VERSIONS)
def test_produce_with_the_transactional_id_of_another_producer_is_refused(
    wire: Wire, name: str, version: int
) -> None:
    topic_id = create_topic(wire, name)["topic_id"]
    producer = initialized(wire, name, rules_of(version))
    data = producer.records(name, 0, b"v")

    [answer] = producer.produce_all(
        {(name, 0): data}, version, topic_id=topic_id, transactional_id=f"{name}-another"
    )

    assert answer["error_code"] == INVALID_PRODUCER_ID_MAPPING


# -- after the end of the transaction


@pytest.mark.proves("transactions 10")
def test_delayed_tv1_produce_after_the_marker_is_refused(wire: Wire, name: str) -> None:
    """No transaction is open. The error is INVALID_TXN_STATE below version 11 of Produce, and
    TRANSACTION_ABORTABLE from version 11 on."""
    create_topic(wire, name)
    producer = initialized(wire, name, rules=1)
    producer.add({name: [0]})
    producer.produce(name, b"a")
    delayed = producer.records(name, 0, b"late")
    assert producer.end(commit=True) == NONE
    ended(wire, name)

    for version in (10, 11):
        [answer] = producer.produce_all({(name, 0): delayed}, version)
        told = INVALID_TXN_STATE if version == 10 else TRANSACTION_ABORTABLE
        assert answer["error_code"] == told

    assert last_stable_offset(wire, name) == end_offset(wire, name) == 2


@pytest.mark.proves("transactions 10")
@pytest.mark.parametrize("version", TV2_VERSIONS)
def test_delayed_tv2_produce_after_the_marker_is_refused(
    wire: Wire, name: str, version: int
) -> None:
    """The error is INVALID_PRODUCER_EPOCH."""
    topic_id = create_topic(wire, name)["topic_id"]
    producer = initialized(wire, name)
    producer.produce(name, b"a")
    delayed = producer.records(name, 0, b"late")
    assert producer.end(commit=True) == NONE
    ended(wire, name)

    [answer] = producer.produce_all({(name, 0): delayed}, version, topic_id=topic_id)

    assert answer["error_code"] == INVALID_PRODUCER_EPOCH
    assert last_stable_offset(wire, name) == end_offset(wire, name) == 2


@pytest.mark.proves("transactions 11")
def test_next_tv2_transaction_needs_the_next_epoch_and_sequence_0(wire: Wire, name: str) -> None:
    create_topic(wire, name, 2)
    producer = initialized(wire, name)
    before = producer.epoch
    producer.produce(name, b"a")
    assert producer.end(commit=True) == NONE
    ended(wire, name)
    assert producer.epoch == before + 1

    never_seen = producer.records(name, 1, b"v", producer_epoch=before)
    [answer] = producer.produce_all({(name, 1): never_seen})
    assert answer["error_code"] == INVALID_PRODUCER_EPOCH
    for partition in (0, 1):
        nonzero = producer.produce(name, b"v", partition=partition, base_sequence=1)
        assert nonzero["error_code"] == OUT_OF_ORDER_SEQUENCE_NUMBER
        assert producer.produce(name, b"b", partition=partition)["error_code"] == NONE


@pytest.mark.proves("transactions 14")
def test_duplicate_batch_of_a_committed_transaction_gets_the_offset_of_the_first_batch(
    wire: Wire, name: str
) -> None:
    create_topic(wire, name)
    producer = initialized(wire, name, rules=1)
    producer.add({name: [0]})
    data = producer.records(name, 0, b"a", b"b")
    [first] = producer.produce_all({(name, 0): data})
    assert producer.end(commit=True) == NONE
    ended(wire, name)

    [again] = producer.produce_all({(name, 0): data})

    assert (again["error_code"], again["base_offset"]) == (NONE, first["base_offset"])
    assert end_offset(wire, name) == 3


@pytest.mark.proves("transactions 15")
@pytest.mark.parametrize("version", VERSIONS)
def test_non_transactional_batch_is_refused_when_a_transaction_is_open(
    wire: Wire, name: str, version: int
) -> None:
    topic_id = create_topic(wire, name)["topic_id"]
    producer = initialized(wire, name, rules_of(version))
    producer.add({name: [0]})
    producer.produce(name, b"a")

    plain = producer.records(name, 0, b"v", is_transactional=False, base_sequence=1)
    [answer] = producer.produce_all({(name, 0): plain}, version, topic_id=topic_id)

    assert answer["error_code"] == INVALID_TXN_STATE
    assert end_offset(wire, name) == 1


def test_refused_transactional_produce_with_acks_0_closes_the_connection(
    wire: Wire, name: str, broker: Broker
) -> None:
    create_topic(wire, name)
    producer = initialized(wire, name, rules=1)
    with Wire(broker.port) as another:
        data = producer.records(name, 0, b"never added")
        value = producer.ask_produce({(name, 0): data}, acks=0)
        another.send("Produce", 11, value)
        assert another.is_closed()
    assert end_offset(wire, name) == 0


@pytest.mark.parametrize("version", [11, 12])
def test_records_of_a_transaction_with_acks_0_are_committed(
    wire: Wire, name: str, version: int
) -> None:
    create_topic(wire, name)
    producer = initialized(wire, name, rules_of(version))
    producer.add({name: [0]})
    data = producer.records(name, 0, b"v")
    wire.send("Produce", version, producer.ask_produce({(name, 0): data}, acks=0))
    wire._sent.clear()

    assert producer.end(commit=True) == NONE
    ended(wire, name)
    assert committed_values(fetch(wire, name, isolation_level=1)) == [b"v"]


def test_records_of_a_large_produce_belong_to_the_transaction(wire: Wire, name: str) -> None:
    """A worker thread checks the records. During the check, the transaction may end. Therefore the
    broker looks up the transaction again in the turn in which it appends the records."""
    create_topic(wire, name, 3)
    producer = initialized(wire, name)
    values = [struct.pack(">i", number) * 500 for number in range(1000)]
    parts = {
        (name, index): producer.records(name, index, *values, compression=4) for index in range(3)
    }

    answers = producer.produce_all(parts)

    assert [each["error_code"] for each in answers] == [NONE] * 3
    assert producer.end(commit=False) == NONE
    for index in range(3):
        ended(wire, name, index)
        answer = fetch(wire, name, partition=index, isolation_level=1)
        assert committed_values(answer) == []
        assert values_of(answer["records"])[:2] == values[:2], "who filters is the consumer"


def test_tv2_produce_during_completion_succeeds_or_gets_retriable_error(
    wire: Wire, name: str
) -> None:
    """In this test the broker writes the markers quickly, so Produce returns NONE or
    CONCURRENT_TRANSACTIONS."""
    create_topic(wire, name)
    producer = initialized(wire, name)
    for number in range(20):
        answer = producer.produce(name, b"%d" % number)
        assert answer["error_code"] in (NONE, CONCURRENT_TRANSACTIONS)
        if answer["error_code"] == NONE:
            assert producer.end(commit=number % 2 == 0) == NONE
