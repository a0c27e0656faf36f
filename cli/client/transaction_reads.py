"""Reads transactional ids and the producers of partitions from any Kafka broker (3.0 and later)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from cli import clock
from cli.client.at_once import Call, at_once
from cli.client.cluster import OF_TRANSACTIONS, RETRY_S, Cluster, Connection
from cli.client.offsets_at import Partition
from cli.errors import USAGE, CommandError, check, refused
from cli.patterns import nearest, spelled
from client.connection import Value
from protocol import errors

STATES = ("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort")
"""The states of transactional ids, in the spelling of ListTransactions."""
OPEN_STATES = STATES[1:4]
"""The states in which a transaction holds back read_committed consumers."""
STATE_TOPIC = "__transaction_state"
IDS_AT_ONCE = 1000
PARTITIONS_AT_ONCE = 500
"""The maximum number of partitions in one DescribeProducers request. It is small because a
partition may have many producers."""


class Listed(NamedTuple):
    """A transactional id in the response to ListTransactions."""

    transactional_id: str
    producer_id: int
    state: str
    coordinator: Connection

    @property
    def is_open(self) -> bool:
        """True if a transaction of this id is not complete on all its partitions."""
        return self.state in OPEN_STATES


class Described(NamedTuple):
    """A transactional id in the response to DescribeTransactions."""

    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    started_ms: int
    """The wall time in ms at which the transaction got its first partition; -1 if no transaction is
    open."""
    partitions: list[Partition]
    coordinator: Connection

    @property
    def is_open(self) -> bool:
        """True if a transaction of this id is not complete on all its partitions."""
        return self.state in OPEN_STATES

    @property
    def topics(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for topic, partition in self.partitions:
            found.setdefault(topic, []).append(partition)
        return found


class Producer(NamedTuple):
    """A producer in a leader's response to DescribeProducers."""

    producer_id: int
    producer_epoch: int
    last_sequence: int | None
    last_ms: int | None
    coordinator_epoch: int | None
    """The coordinator epoch of the producer's last transaction marker; None without a marker."""
    start_offset: int | None
    """The first offset of the producer's open transaction in the partition; None without an open
    transaction."""


class Producers(NamedTuple):
    """The producers of partitions, and the error codes of the partitions whose producers could not
    be read."""

    found: dict[Partition, list[Producer]]
    refused: dict[Partition, int]


def list_transactions(
    cluster: Cluster, states: Collection[str] = (), producer_ids: Collection[int] = ()
) -> list[Listed]:
    """Returns every transactional id of the cluster that matches the filters, ordered by id. While
    a coordinator loads, its request is retried until the cluster's timeout."""
    asked = {
        "state_filters": list(states),
        "producer_id_filters": list(producer_ids),
    }
    missing = list(cluster.brokers())
    found: list[Listed] = []
    deadline_s = clock.monotonic_s() + cluster.timeout_s
    while missing:
        later = []
        calls = [Call(broker, "ListTransactions", asked) for broker in missing]
        for broker, answer in zip(missing, at_once(cluster, calls), strict=True):
            code = answer["error_code"]
            if code in errors.RETRIABLE and clock.monotonic_s() < deadline_s:
                later.append(broker)
                continue
            check(f"transactions at {broker.address}", answer)
            found += [
                Listed(
                    each["transactional_id"],
                    each["producer_id"],
                    each["transaction_state"],
                    broker,
                )
                for each in answer["transaction_states"]
            ]
        missing = later
        if missing:
            clock.sleep(RETRY_S)
    return sorted(found, key=lambda each: each.transactional_id)


def describe_transactions(
    cluster: Cluster, coordinators: Mapping[str, Connection]
) -> dict[str, Described]:
    """Returns the state of each transactional id in ``coordinators``. Unknown ids are omitted."""
    by_coordinator: dict[Connection, list[str]] = {}
    for name, coordinator in coordinators.items():
        by_coordinator.setdefault(coordinator, []).append(name)
    calls = [
        Call(at, "DescribeTransactions", {"transactional_ids": names[start : start + IDS_AT_ONCE]})
        for at, names in by_coordinator.items()
        for start in range(0, len(names), IDS_AT_ONCE)
    ]
    found = {}
    for answer in at_once(cluster, calls, "reading transactions"):
        for each in answer["transaction_states"]:
            name = each["transactional_id"]
            check(f"transactional id {name}", each, errors.TRANSACTIONAL_ID_NOT_FOUND)
            if not each["error_code"]:
                found[name] = _described(each, coordinators[name])
    return found


def _described(answer: Value, coordinator: Connection) -> Described:
    return Described(
        answer["transactional_id"],
        answer["transaction_state"],
        answer["producer_id"],
        answer["producer_epoch"],
        answer["transaction_timeout_ms"],
        answer["transaction_start_time_ms"],
        [
            (topic["topic"], partition)
            for topic in answer["topics"]
            for partition in sorted(topic["partitions"])
        ],
        coordinator,
    )


def known_transactions(cluster: Cluster, names: Collection[str]) -> dict[str, Described]:
    """Returns the state of each transactional id. Raises CommandError for ids that do not exist.
    FindCoordinator would create __transaction_state; therefore it is sent only if that topic
    exists."""
    found: dict[str, Described] = {}
    if not cluster.metadata([STATE_TOPIC])["topics"][0]["error_code"]:
        found = describe_transactions(cluster, cluster.coordinators(names, OF_TRANSACTIONS))
    missing = [name for name in names if name not in found]
    if missing:
        raise not_there(cluster, missing)
    return {name: found[name] for name in names}


def not_there(cluster: Cluster, missing: Sequence[str]) -> CommandError:
    """Returns the error for transactional ids that do not exist, and for patterns that match no id.
    Its text suggests a similar existing id."""
    meant = nearest(missing, [each.transactional_id for each in list_transactions(cluster)])
    what = spelled(missing, "transactional id")
    return refused(what, errors.TRANSACTIONAL_ID_NOT_FOUND, "not found", meant)


def producers_of(cluster: Cluster, leaders: Mapping[Partition, Connection]) -> Producers:
    """Returns the producers that the partitions' leaders know (Kafka 2.8 and later)."""
    by_leader: dict[Connection, list[Partition]] = {}
    for key, leader in leaders.items():
        by_leader.setdefault(leader, []).append(key)
    calls = []
    for leader, keys in by_leader.items():
        for start in range(0, len(keys), PARTITIONS_AT_ONCE):
            topics: dict[str, list[int]] = {}
            for topic, partition in keys[start : start + PARTITIONS_AT_ONCE]:
                topics.setdefault(topic, []).append(partition)
            named = [{"name": t, "partition_indexes": numbers} for t, numbers in topics.items()]
            calls.append(Call(leader, "DescribeProducers", {"topics": named}))
    found: dict[Partition, list[Producer]] = {}
    refusals: dict[Partition, int] = {}
    for answer in at_once(cluster, calls, "reading producers"):
        for topic in answer["topics"]:
            for each in topic["partitions"]:
                key = topic["name"], each["partition_index"]
                if each["error_code"]:
                    refusals[key] = each["error_code"]
                else:
                    found[key] = [_producer(one) for one in each["active_producers"]]
    return Producers(found, refusals)


def _producer(answer: Value) -> Producer:
    return Producer(
        answer["producer_id"],
        answer["producer_epoch"],
        _known(answer["last_sequence"]),
        _known(answer["last_timestamp"]),
        _known(answer["coordinator_epoch"]),
        _known(answer["current_txn_start_offset"]),
    )


def _known(number: int) -> int | None:
    """Returns ``number``; None for -1, which is Kafka's value for unknown."""
    return None if number < 0 else number


def states_named(names: Collection[str]) -> list[str]:
    """Returns states in the spelling of ListTransactions. ``open`` means all of OPEN_STATES."""
    known = {state.lower(): [state] for state in STATES} | {"open": list(OPEN_STATES)}
    found: dict[str, None] = {}
    for name in names:
        states = known.get(name.lower().replace("-", "").replace("_", ""))
        if states is None:
            raise CommandError(f"--state {name}: choose open or one of {', '.join(STATES)}", USAGE)
        found.update(dict.fromkeys(states))
    return list(found)
