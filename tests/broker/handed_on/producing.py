"""Cases of misuse of producer ids and transactions: by another principal, in another role, and
after WRITE was revoked.

Logs do not store a principal with a producer id. A principal can use a transaction if it has WRITE
on the transactional id (checked at each request) and sends the right producer id and epoch. As in
Kafka 4.3.1, a partition that already has records of the transaction accepts the producer id with
any transactional id. So a principal with WRITE on the topic and on any transactional id can append
records there.
"""

from __future__ import annotations

from typing import Any

from protocol.errors import (
    CLUSTER_AUTHORIZATION_FAILED,
    GROUP_AUTHORIZATION_FAILED,
    INVALID_PRODUCER_ID_MAPPING,
    INVALID_TXN_STATE,
    NONE,
    PRODUCER_FENCED,
    TOPIC_AUTHORIZATION_FAILED,
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
)
from tests.broker.handed_on.scene import ALICE, BOB, Scene
from tests.broker.handed_on.table import Kind, Misuse, case
from tests.broker.topic_calls import produce
from tests.broker.transactional_calls import (
    Pair,
    add,
    add_offsets,
    end,
    end_once,
    init,
    init_once,
    send,
    state_of,
)
from tests.waiting import until
from tests.wire import Wire, batch

DENIED = TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def granted(scene: Scene, user: str, topic: str) -> str:
    """Returns a new transactional id. Grants ``user`` the right to write to ``topic`` and to use
    the id."""
    transactional_id = scene.transactional_id()
    scene.grant(user, f"WRITE TRANSACTIONAL_ID {transactional_id}")
    scene.grant(user, f"WRITE TOPIC {topic}")
    return transactional_id


def sent(wire: Wire, transactional_id: str | None, producer: Pair, topic: str, **more: Any) -> int:
    """Produces one transactional record. Returns the error code of the partition."""
    code: int = send(wire, transactional_id, producer, topic, **more)["error_code"]
    return code


def commit_offset(
    wire: Wire, transactional_id: str, producer: Pair, group: str, topic: str, version: int = 3
) -> int:
    """Sends TxnOffsetCommit for partition 0. Returns the error code."""
    partitions = [{"partition_index": 0, "committed_offset": 1}]
    asked = {
        "transactional_id": transactional_id, "group_id": group, "producer_id": producer[0],
        "producer_epoch": producer[1], "generation_id": -1,
        "topics": [{"name": topic, "partitions": partitions}],
    }  # fmt: skip
    answer = wire.call("TxnOffsetCommit", version, asked)
    code: int = answer["topics"][0]["partitions"][0]["error_code"]
    return code


@case(Kind.PRODUCER_ID, Misuse.BY_ANOTHER)
def a_producer_id_is_not_used_under_another_transactional_id(scene: Scene) -> None:
    topic = scene.topic()
    group = scene.group()
    hers, his = granted(scene, ALICE, topic), granted(scene, BOB, topic)
    scene.grant(BOB, f"READ GROUP {group}", f"READ TOPIC {topic}")
    alice, bob = scene.both()
    producer = init(alice, hers)
    init(bob, his)
    wrong = INVALID_PRODUCER_ID_MAPPING
    assert init_once(bob, his, producer=producer)["error_code"] == PRODUCER_FENCED
    assert add(bob, his, producer, [(topic, [0])]) == {(topic, 0): wrong}
    assert add_offsets(bob, his, producer, group) == wrong
    assert end_once(bob, his, producer, True, 4)[0] == wrong
    for version in (11, 12):
        assert sent(bob, his, producer, topic, version=version) == wrong
    for version in (4, 5):
        assert commit_offset(bob, his, producer, group, topic, version) == wrong
    assert sent(alice, hers, producer, topic, version=12) == NONE
    assert end(alice, hers, producer)[0] == NONE


@case(Kind.PRODUCER_ID, Misuse.IN_ANOTHER_ROLE)
def an_idempotent_producer_id_is_of_no_transaction(scene: Scene) -> None:
    topic = scene.topic()
    mine = granted(scene, ALICE, topic)
    alice = scene.logged_in(ALICE)
    init(alice, mine)
    found = init_once(alice, None)
    producer = found["producer_id"], found["producer_epoch"]
    assert found["error_code"] == NONE
    wrong = INVALID_PRODUCER_ID_MAPPING
    assert add(alice, mine, producer, [(topic, [0])]) == {(topic, 0): wrong}
    assert end_once(alice, mine, producer, True, 4)[0] == wrong
    assert sent(alice, None, producer, topic, version=9) == DENIED


@case(Kind.PRODUCER_ID, Misuse.IN_ANOTHER_ROLE)
def a_transactions_producer_id_writes_nothing_beside_the_transaction(scene: Scene) -> None:
    topic = scene.topic()
    hers = granted(scene, ALICE, topic)
    scene.grant(BOB, f"WRITE TOPIC {topic}")
    alice, bob = scene.both()
    pid, epoch = producer = init(alice, hers)
    assert sent(alice, hers, producer, topic, version=12) == NONE
    beside = batch(b"x", producer_id=pid, producer_epoch=epoch, base_sequence=1)
    assert produce(bob, topic, beside)["error_code"] == INVALID_TXN_STATE
    assert end(alice, hers, producer)[0] == NONE


@case(Kind.PRODUCER_ID, Misuse.AFTER_REVOCATION)
def a_producer_id_does_not_outlive_the_right_to_write(scene: Scene) -> None:
    topic = scene.topic(b"first")
    scene.grant(ALICE, f"WRITE TOPIC {topic}")
    alice = scene.logged_in(ALICE)
    found = init_once(alice, None)
    fields = {"producer_id": found["producer_id"], "producer_epoch": found["producer_epoch"]}
    assert produce(alice, topic, batch(b"x", base_sequence=0, **fields))["error_code"] == NONE
    scene.revoke(ALICE, f"WRITE TOPIC {topic}")
    error = produce(alice, topic, batch(b"x", base_sequence=1, **fields))["error_code"]
    assert error == TOPIC_AUTHORIZATION_FAILED
    assert init_once(alice, None)["error_code"] in (NONE, CLUSTER_AUTHORIZATION_FAILED)


@case(Kind.TRANSACTION, Misuse.BY_ANOTHER)
def a_transaction_is_of_those_who_may_write_its_id(scene: Scene) -> None:
    topic = scene.topic()
    group = scene.group()
    hers = granted(scene, ALICE, topic)
    scene.grant(BOB, f"WRITE TOPIC {topic}", f"READ TOPIC {topic}", f"READ GROUP {group}")
    alice, bob = scene.both()
    producer = init(alice, hers)
    assert sent(alice, hers, producer, topic, version=12) == NONE
    assert init_once(bob, hers)["error_code"] == DENIED
    assert set(add(bob, hers, producer, [(topic, [0])]).values()) == {DENIED}
    assert add_offsets(bob, hers, producer, group) == DENIED
    for version in (3, 5):
        assert commit_offset(bob, hers, producer, group, topic, version) == DENIED
    for version in (11, 12):
        assert sent(bob, hers, producer, topic, sequence=1, version=version) == DENIED
        assert sent(bob, None, producer, topic, sequence=1, version=version) == DENIED
    for version in (4, 5):
        assert end_once(bob, hers, producer, True, version)[0] == DENIED
    assert state_of(scene.admin, hers) == "Ongoing"
    assert end(alice, hers, producer)[0] == NONE


@case(Kind.TRANSACTION, Misuse.IN_ANOTHER_ROLE)
def a_transaction_is_not_ended_or_filled_as_a_broker(scene: Scene) -> None:
    topic = scene.topic()
    mine = granted(scene, ALICE, topic)
    alice = scene.logged_in(ALICE)
    pid, epoch = producer = init(alice, mine)
    assert sent(alice, mine, producer, topic, version=12) == NONE
    fields = {"producer_id": pid, "producer_epoch": epoch}
    topics = [{"name": topic, "partitions": [0]}]
    one = {"transactional_id": mine, "verify_only": False, "topics": topics, **fields}
    answer = alice.call("AddPartitionsToTxn", 5, {"transactions": [one]})
    assert answer["error_code"] == CLUSTER_AUTHORIZATION_FAILED
    marker = {
        "transaction_result": True, "coordinator_epoch": 0, **fields,
        "topics": [{"name": topic, "partition_indexes": [0]}],
    }  # fmt: skip
    [told] = alice.call("WriteTxnMarkers", 1, {"markers": [marker]})["markers"]
    assert told["topics"][0]["partitions"][0]["error_code"] == CLUSTER_AUTHORIZATION_FAILED
    assert state_of(scene.admin, mine) == "Ongoing"
    assert end(alice, mine, producer)[0] == NONE


@case(Kind.TRANSACTION, Misuse.AFTER_REVOCATION)
def a_transaction_goes_on_for_those_alone_who_may_still_write_its_id(scene: Scene) -> None:
    topic = scene.topic()
    mine = granted(scene, ALICE, topic)
    alice = scene.logged_in(ALICE)
    producer = init(alice, mine)
    assert sent(alice, mine, producer, topic, version=12) == NONE
    right = f"WRITE TRANSACTIONAL_ID {mine}"
    scene.revoke(ALICE, right)
    assert sent(alice, mine, producer, topic, sequence=1, version=12) == DENIED
    for version in (4, 5):
        assert end_once(alice, mine, producer, True, version)[0] == DENIED
    assert state_of(scene.admin, mine) == "Ongoing"
    scene.grant(ALICE, right)
    assert end(alice, mine, producer)[0] == NONE


@case(Kind.TRANSACTION, Misuse.AFTER_REVOCATION)
def a_transaction_takes_no_topic_or_group_whose_right_was_revoked(scene: Scene) -> None:
    topic, other = scene.topic(), scene.topic()
    group = scene.group()
    mine = granted(scene, ALICE, topic)
    rights = (f"WRITE TOPIC {other}", f"READ GROUP {group}", f"READ TOPIC {topic}")
    scene.grant(ALICE, *rights)
    alice = scene.logged_in(ALICE)
    producer = init(alice, mine)
    assert sent(alice, mine, producer, topic, version=12) == NONE
    until("committed", lambda: commit_offset(alice, mine, producer, group, topic, 5) == NONE)
    scene.revoke(ALICE, *rights[:2])
    for version in (11, 12):
        assert sent(alice, mine, producer, other, version=version) == TOPIC_AUTHORIZATION_FAILED
    assert add(alice, mine, producer, [(other, [0])]) == {(other, 0): TOPIC_AUTHORIZATION_FAILED}
    assert add_offsets(alice, mine, producer, group) == GROUP_AUTHORIZATION_FAILED
    for version in (3, 5):
        error = commit_offset(alice, mine, producer, group, topic, version)
        assert error == GROUP_AUTHORIZATION_FAILED
    scene.grant(ALICE, rights[1])
    scene.revoke(ALICE, rights[2])
    for version in (3, 5):
        error = commit_offset(alice, mine, producer, group, topic, version)
        assert error == TOPIC_AUTHORIZATION_FAILED
    assert end(alice, mine, producer)[0] == NONE
