"""Helpers that send the requests of transactional producers, with default values for most
fields."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from protocol.errors import (
    CONCURRENT_TRANSACTIONS,
    COORDINATOR_LOAD_IN_PROGRESS,
    COORDINATOR_NOT_AVAILABLE,
    INVALID_PRODUCER_EPOCH,
    INVALID_PRODUCER_ID_MAPPING,
    INVALID_REQUEST,
    NONE,
    NOT_COORDINATOR,
    PRODUCER_FENCED,
)
from tests.broker.topic_calls import create_topic, list_offset, produce
from tests.waiting import until
from tests.wire import Wire, batch

PASSING = (
    CONCURRENT_TRANSACTIONS,
    COORDINATOR_LOAD_IN_PROGRESS,
    COORDINATOR_NOT_AVAILABLE,
    NOT_COORDINATOR,
)
"""Errors after which clients retry the request."""
NOBODY = 1_000_000
"""A producer id that is assigned to no transactional id."""
GROUP, TRANSACTION = 0, 1
"""The key types of FindCoordinator."""

Topics = Sequence[tuple[str, Sequence[int]]]
Codes = dict[tuple[str, int], int]
"""Error codes by topic and partition."""
Pair = tuple[int, int]
"""A producer id and its epoch."""


def fenced(version: int) -> int:
    """Returns the error code that a fenced producer gets for this version of a transactional
    request (KIP-588)."""
    return INVALID_PRODUCER_EPOCH if version < 2 else PRODUCER_FENCED


def wrong_producers(
    transactional_id: str, producer: Pair, version: int
) -> list[tuple[str, Pair, int]]:
    """Returns invalid combinations of transactional id and producer, each with its error code. They
    are in the order in which the broker checks them."""
    pid, epoch = producer
    return [
        ("", (NOBODY, epoch - 1), INVALID_REQUEST),
        (f"{transactional_id}-unknown", producer, INVALID_PRODUCER_ID_MAPPING),
        (transactional_id, (NOBODY, epoch - 1), INVALID_PRODUCER_ID_MAPPING),
        (transactional_id, (pid, epoch - 1), fenced(version)),
        (transactional_id, (pid, epoch + 1), fenced(version)),
    ]


def find(wire: Wire, key: str, key_type: int = TRANSACTION) -> None:
    """Sends FindCoordinator until the coordinator is available."""
    request = {"key_type": key_type, "coordinator_keys": [key]}
    until(
        "a coordinator",
        lambda: wire.call("FindCoordinator", 4, request)["coordinators"][0]["error_code"] == NONE,
    )


def init_once(
    wire: Wire,
    transactional_id: str | None,
    version: int = 4,
    producer: Pair = (-1, -1),
    timeout_ms: int = 60_000,
    **fields: Any,
) -> dict[str, Any]:
    request = {
        "transactional_id": transactional_id,
        "transaction_timeout_ms": timeout_ms,
        "producer_id": producer[0],
        "producer_epoch": producer[1],
        **fields,
    }
    return wire.call("InitProducerId", version, request)


def init(wire: Wire, transactional_id: str, version: int = 4, **fields: Any) -> Pair:
    """Sends InitProducerId until it succeeds; returns producer id and epoch."""

    def answered() -> dict[str, Any] | None:
        answer = init_once(wire, transactional_id, version, **fields)
        return None if answer["error_code"] in PASSING else answer

    found = until("InitProducerId is answered", answered)
    assert found["error_code"] == NONE, found
    return found["producer_id"], found["producer_epoch"]


def begin(wire: Wire, transactional_id: str, **fields: Any) -> Pair:
    """Finds the coordinator of a transactional id, sends InitProducerId until it succeeds, and
    returns producer id and epoch."""
    find(wire, transactional_id)
    return init(wire, transactional_id, **fields)


def add(
    wire: Wire, transactional_id: str, producer: Pair, topics: Topics, version: int = 3
) -> Codes:
    """Sends AddPartitionsToTxn as a client and returns the error codes by topic and partition."""
    request = {
        "v3_and_below_transactional_id": transactional_id,
        "v3_and_below_producer_id": producer[0],
        "v3_and_below_producer_epoch": producer[1],
        "v3_and_below_topics": [{"name": name, "partitions": ids} for name, ids in topics],
    }
    answer = wire.call("AddPartitionsToTxn", version, request)
    return codes_of(answer["results_by_topic_v3_and_below"])


def added(wire: Wire, transactional_id: str, producer: Pair, topics: Topics) -> None:

    def answered() -> Codes | None:
        codes = add(wire, transactional_id, producer, topics)
        return None if set(codes.values()) & set(PASSING) else codes

    assert set(until("AddPartitionsToTxn is answered", answered).values()) == {NONE}


def transaction(
    transactional_id: str, producer: Pair, topics: Topics, *, verify_only: bool
) -> dict[str, Any]:
    return {
        "transactional_id": transactional_id,
        "producer_id": producer[0],
        "producer_epoch": producer[1],
        "verify_only": verify_only,
        "topics": [{"name": name, "partitions": ids} for name, ids in topics],
    }


def add_as_broker(
    wire: Wire, *transactions: dict[str, Any], version: int = 5
) -> list[tuple[str, Codes]]:
    """Sends AddPartitionsToTxn as a broker. Returns the transactional id and the error codes of
    each transaction."""
    answer = wire.call("AddPartitionsToTxn", version, {"transactions": list(transactions)})
    assert answer["error_code"] == NONE
    return [
        (each["transactional_id"], codes_of(each["topic_results"]))
        for each in answer["results_by_transaction"]
    ]


def codes_of(results: list[dict[str, Any]]) -> Codes:
    return {
        (result["name"], partition["partition_index"]): partition["partition_error_code"]
        for result in results
        for partition in result["results_by_partition"]
    }


def add_offsets(
    wire: Wire, transactional_id: str, producer: Pair, group_id: str, version: int = 3
) -> int:
    request = {
        "transactional_id": transactional_id,
        "producer_id": producer[0],
        "producer_epoch": producer[1],
        "group_id": group_id,
    }
    code: int = wire.call("AddOffsetsToTxn", version, request)["error_code"]
    return code


def end_once(
    wire: Wire,
    transactional_id: str,
    producer: Pair,
    committed: bool,
    version: int,
    **fields: Any,
) -> tuple[int, Pair]:
    """Sends one EndTxn. Returns the error code, and the producer id and epoch from the response."""
    request = {
        "transactional_id": transactional_id,
        "producer_id": producer[0],
        "producer_epoch": producer[1],
        "committed": committed,
        **fields,
    }
    answer = wire.call("EndTxn", version, request)
    return answer["error_code"], (answer["producer_id"], answer["producer_epoch"])


def end(
    wire: Wire, transactional_id: str, producer: Pair, committed: bool = True, version: int = 5
) -> tuple[int, Pair]:
    """Sends EndTxn until the error is not retriable. Returns the error code, and the producer id
    and epoch from the response."""

    def answered() -> tuple[int, Pair] | None:
        answer = end_once(wire, transactional_id, producer, committed, version)
        return None if answer[0] in PASSING else answer

    return until("EndTxn is answered", answered)


def send(
    wire: Wire,
    transactional_id: str | None,
    producer: Pair,
    topic: str,
    partition: int = 0,
    sequence: int = 0,
    version: int = 11,
    *values: bytes,
) -> dict[str, Any]:
    """Produces records in a transaction and returns the partition's entry in the response."""
    data = batch(
        *(values or (b"v",)),
        timestamp=int(time.time() * 1000),
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=sequence,
        is_transactional=True,
    )
    return produce(wire, topic, data, partition, version, transactional_id=transactional_id)


def hang(wire: Wire, transactional_id: str, topic: str, partition: int) -> None:
    """Appends records to a partition that is not in the transaction, as a late batch could before
    KIP-890. Needs transaction.partition.verification.enable=false."""
    producer = begin(wire, transactional_id)
    entry = send(wire, transactional_id, producer, topic, partition, 0, 9, b"a", b"b")
    assert entry["error_code"] == NONE


def describe(wire: Wire, *transactional_ids: str) -> list[dict[str, Any]]:
    request = {"transactional_ids": list(transactional_ids)}
    found: list[dict[str, Any]] = wire.call("DescribeTransactions", 0, request)[
        "transaction_states"
    ]
    return found


def state_of(wire: Wire, transactional_id: str) -> str:
    (found,) = describe(wire, transactional_id)
    state: str = found["transaction_state"]
    return state


def listed(wire: Wire, version: int = 2, **filters: Any) -> dict[str, Any]:
    request: Mapping[str, Any] = {"state_filters": [], "producer_id_filters": [], **filters}
    return wire.call("ListTransactions", version, dict(request))


def create_led(wire: Wire, topic: str, partitions: int = 1) -> None:
    """Creates a topic and waits until this broker serves its last partition."""
    assert create_topic(wire, topic, partitions)["error_code"] == NONE
    until(
        "it is served",
        lambda: list_offset(wire, topic, -1, partition=partitions - 1)["error_code"] == NONE,
    )
