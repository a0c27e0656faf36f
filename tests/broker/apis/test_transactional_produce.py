"""Produce in transactions: who may append what to where, in every version that knows them."""

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


# -- the request as a whole


@pytest.mark.parametrize("version", VERSIONS)
def test_a_transactional_batch_needs_a_transactional_id(
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


@pytest.mark.parametrize("version", VERSIONS)
def test_one_request_has_batches_of_one_producer_in_one_epoch(
    wire: Wire, name: str, version: int
) -> None:
    topic_id = create_topic(wire, name, 2)["topic_id"]
    producer = initialized(wire, name, rules_of(version))
    producer.add({name: [0, 1]})
    ours = producer.records(name, 0, b"a")
    theirs = producer.records(name, 1, b"b", producer_epoch=producer.epoch + 1)

    answers = producer.produce_all({(name, 0): ours, (name, 1): theirs}, version, topic_id=topic_id)

    assert [each["error_code"] for each in answers] == [INVALID_PRODUCER_ID_MAPPING] * 2
    assert end_offset(wire, name, 0) == end_offset(wire, name, 1) == 0


@pytest.mark.parametrize("version", VERSIONS)
def test_a_transactional_id_beside_plain_batches_means_nothing(
    wire: Wire, name: str, version: int
) -> None:
    topic_id = create_topic(wire, name)["topic_id"]

    answer = produce(
        wire, name, batch(b"v"), version=version, topic_id=topic_id, transactional_id="anybody"
    )

    assert (answer["error_code"], answer["base_offset"]) == (NONE, 0)


@pytest.mark.parametrize("version", VERSIONS)
def test_clients_write_no_control_batches(wire: Wire, name: str, version: int) -> None:
    topic_id = create_topic(wire, name)["topic_id"]
    producer = initialized(wire, name, rules_of(version))
    producer.add({name: [0]})
    marker = producer.records(name, 0, b"v", is_control=True)

    [answer] = producer.produce_all({(name, 0): marker}, version, topic_id=topic_id)

    assert answer["error_code"] == INVALID_RECORD
    assert end_offset(wire, name) == 0


# -- what is added, and what is not


@pytest.mark.parametrize("version", TV1_VERSIONS)
def test_a_partition_that_was_not_added_takes_nothing(wire: Wire, name: str, version: int) -> None:
    create_topic(wire, name, 2)
    produce(wire, name, batch(b"before"))
    producer = initialized(wire, name, rules=1)
    producer.add({name: [1]})

    answer = producer.produce(name, b"v", version=version)

    told = TRANSACTION_ABORTABLE if version >= 11 else INVALID_TXN_STATE
    assert answer["error_code"] == told
    assert end_offset(wire, name) == last_stable_offset(wire, name) == 1


@pytest.mark.parametrize("version", TV1_VERSIONS)
def test_a_partition_that_was_added_takes_the_transactions_records(
    wire: Wire, name: str, version: int
) -> None:
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
def test_the_broker_adds_what_a_client_of_tv2_writes_to(
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
def test_partitions_that_do_not_exist_are_not_added(wire: Wire, name: str, version: int) -> None:
    topic_id = create_topic(wire, name)["topic_id"]
    producer = initialized(wire, name, rules_of(version))
    if version in TV1_VERSIONS:
        producer.add({name: [0]})
    parts = {(name, index): producer.records(name, index, b"v") for index in (0, 7)}

    there, missing = producer.produce_all(parts, version, topic_id=topic_id)

    assert (there["error_code"], missing["error_code"]) == (NONE, 3)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_fenced_producer_appends_nothing(wire: Wire, name: str, version: int) -> None:
    """Sentence 2: its Produce says INVALID_PRODUCER_EPOCH, in any version."""
    topic_id = create_topic(wire, name)["topic_id"]
    zombie = initialized(wire, name, rules_of(version))
    initialized(wire, name)

    [answer] = zombie.produce_all(
        {(name, 0): zombie.records(name, 0, b"v")}, version, topic_id=topic_id
    )

    assert answer["error_code"] == INVALID_PRODUCER_EPOCH
    assert end_offset(wire, name) == 0


@pytest.mark.parametrize("version", TV1_VERSIONS)
def test_no_transaction_has_an_internal_topic(wire: Wire, name: str, version: int) -> None:
    """Clients can't add one, which comes before that they may not write there."""
    wire.call("FindCoordinator", 2, {"key": name, "key_type": 0})
    producer = initialized(wire, name, rules=1)

    answer = producer.produce("__consumer_offsets", b"v", version=version)

    told = TRANSACTION_ABORTABLE if version >= 11 else INVALID_TXN_STATE
    assert answer["error_code"] == told


def test_clients_of_tv2_may_not_write_internal_topics_either(wire: Wire, name: str) -> None:
    wire.call("FindCoordinator", 2, {"key": name, "key_type": 0})
    producer = initialized(wire, name)

    assert producer.produce("__consumer_offsets", b"v")["error_code"] == INVALID_TOPIC_EXCEPTION
    asked = {"transactional_ids": [name]}
    [described] = wire.call("DescribeTransactions", 0, asked)["transaction_states"]
    assert described["transaction_state"] == "Empty", "nothing was added"


@pytest.mark.parametrize("version", VERSIONS)
def test_an_id_that_nobody_has_is_no_producers(wire: Wire, name: str, version: int) -> None:
    topic_id = create_topic(wire, name)["topic_id"]
    producer = initialized(wire, name, rules_of(version))
    data = producer.records(name, 0, b"v")

    [answer] = producer.produce_all(
        {(name, 0): data}, version, topic_id=topic_id, transactional_id=f"{name}-another"
    )

    assert answer["error_code"] == INVALID_PRODUCER_ID_MAPPING


# -- behind the transaction's end


def test_a_delayed_produce_opens_nothing_behind_its_marker(wire: Wire, name: str) -> None:
    """Sentence 10, TV1: refused with INVALID_TXN_STATE, and nothing is open."""
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


@pytest.mark.parametrize("version", TV2_VERSIONS)
def test_a_delayed_produce_of_tv2_has_an_epoch_of_the_past(
    wire: Wire, name: str, version: int
) -> None:
    """Sentence 10, TV2: INVALID_PRODUCER_EPOCH."""
    topic_id = create_topic(wire, name)["topic_id"]
    producer = initialized(wire, name)
    producer.produce(name, b"a")
    delayed = producer.records(name, 0, b"late")
    assert producer.end(commit=True) == NONE
    ended(wire, name)

    [answer] = producer.produce_all({(name, 0): delayed}, version, topic_id=topic_id)

    assert answer["error_code"] == INVALID_PRODUCER_EPOCH
    assert last_stable_offset(wire, name) == end_offset(wire, name) == 2


def test_each_transaction_of_tv2_has_its_epoch_and_begins_with_sequence_0(
    wire: Wire, name: str
) -> None:
    """Sentence 11."""
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


def test_a_duplicate_of_a_finished_transaction_is_answered_as_before(wire: Wire, name: str) -> None:
    """Sentence 14."""
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


@pytest.mark.parametrize("version", VERSIONS)
def test_no_plain_batch_goes_into_an_open_transaction(wire: Wire, name: str, version: int) -> None:
    """Sentence 15."""
    topic_id = create_topic(wire, name)["topic_id"]
    producer = initialized(wire, name, rules_of(version))
    producer.add({name: [0]})
    producer.produce(name, b"a")

    plain = producer.records(name, 0, b"v", is_transactional=False, base_sequence=1)
    [answer] = producer.produce_all({(name, 0): plain}, version, topic_id=topic_id)

    assert answer["error_code"] == INVALID_TXN_STATE
    assert end_offset(wire, name) == 1


def test_without_acks_an_error_closes_the_connection(wire: Wire, name: str, broker: Broker) -> None:
    create_topic(wire, name)
    producer = initialized(wire, name, rules=1)
    with Wire(broker.port) as another:
        data = producer.records(name, 0, b"never added")
        value = producer.ask_produce({(name, 0): data}, acks=0)
        another.send("Produce", 11, value)
        assert another.is_closed()
    assert end_offset(wire, name) == 0


@pytest.mark.parametrize("version", [11, 12])
def test_a_transaction_without_acks_is_there(wire: Wire, name: str, version: int) -> None:
    create_topic(wire, name)
    producer = initialized(wire, name, rules_of(version))
    producer.add({name: [0]})
    data = producer.records(name, 0, b"v")
    wire.send("Produce", version, producer.ask_produce({(name, 0): data}, acks=0))
    wire._sent.clear()

    assert producer.end(commit=True) == NONE
    ended(wire, name)
    assert committed_values(fetch(wire, name, isolation_level=1)) == [b"v"]


def test_what_a_large_request_appends_is_in_its_transaction(wire: Wire, name: str) -> None:
    """It is checked by the worker, and looked up again in the turn of each append."""
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


def test_while_the_transaction_before_is_completed_there_is_an_answer_to_try_again(
    wire: Wire, name: str
) -> None:
    """Sentence 8's second half is quick here: what is answered is 0, or an error to try again."""
    create_topic(wire, name)
    producer = initialized(wire, name)
    for number in range(20):
        answer = producer.produce(name, b"%d" % number)
        assert answer["error_code"] in (NONE, CONCURRENT_TRANSACTIONS)
        if answer["error_code"] == NONE:
            assert producer.end(commit=number % 2 == 0) == NONE
