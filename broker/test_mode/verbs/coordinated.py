"""The verbs for groups and records in a cluster. The broker that coordinates the group, or leads
the partition, executes the verb."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from broker.test_mode.arguments import TEXT, Argument
from broker.test_mode.cluster.tested_cluster import TestedCluster
from broker.test_mode.refusals import NotNow
from broker.test_mode.tested_broker import TestedBroker
from broker.test_mode.verbs import groups, happened
from broker.test_mode.verbs.verb import Answer, Verb
from broker.topics.registry import OFFSETS_TOPIC, TRANSACTION_TOPIC
from offsets.partitioner import partition_for


def leader_of(cluster: TestedCluster, topic: str, partition: int) -> TestedBroker:
    """Returns the broker that leads a partition. Raises NotNow if the partition has no leader."""
    found = cluster.truth.partition(topic, partition)
    if found is None:
        raise NotNow(f"{topic}-{partition} does not exist")
    tested = None if found.state is None else cluster.brokers.get(found.state.leader)
    if tested is None or not tested.is_running:
        raise NotNow(f"{topic}-{partition} has no leader at the moment")
    return tested


def coordinator_of(
    cluster: TestedCluster, key: str, topic: str = OFFSETS_TOPIC
) -> TestedBroker | None:
    """Returns the broker that coordinates a group or transactional id; None if no coordinator
    exists yet. Raises NotNow if the coordinator is not available."""
    count = len(cluster.truth.partitions(topic))
    return leader_of(cluster, topic, partition_for(key, count)) if count else None


def _at_coordinator(verb: Verb) -> Verb:
    """Returns a variant of a verb that is about one group. The variant is executed by the broker
    that coordinates the group."""

    async def do(cluster: TestedCluster, *, group: str, **given: Any) -> Answer:
        at = coordinator_of(cluster, group) or next(iter(_running(cluster)))
        return await verb.do(at, group=group, **given)

    return replace(verb, do=do)


def _merged(verb: Verb, name: str) -> Verb:
    """Returns a cluster verb that runs ``verb`` on each running broker. The response has one list
    ``name``, which contains the rows of this list in all brokers' responses."""

    async def do(cluster: TestedCluster, **given: Any) -> Answer:
        answers = [await verb.do(each, **given) for each in _running(cluster)]
        return {name: [row for answer in answers for row in answer[name]]}

    return replace(verb, do=do)


def _running(cluster: TestedCluster) -> list[TestedBroker]:
    found = [each for each in cluster.brokers.values() if each.is_running]
    if not found:
        raise NotNow("all brokers are stopped: POST /test/start starts one")
    return found


async def records(
    cluster: TestedCluster, topic: str, partition: int | None, first: int, limit: int
) -> Answer:
    """Returns a topic's records by partition. The leader of each partition reads its records."""
    found = [
        each.partition
        for each in cluster.truth.partitions(topic)
        if partition in (None, each.partition)
    ]
    if not found:
        at = _running(cluster)[0]  # responds with the reason
        return await happened.records(at, topic, partition, first, limit)
    rows: list[dict[str, Any]] = []
    for index in found:
        at = leader_of(cluster, topic, index)
        rows += (await happened.records(at, topic, index, first, limit))["records"]
    return {"records": rows[:limit], "truncated": len(rows) > limit}


async def coordinator(
    cluster: TestedCluster, group: str | None, transactional_id: str | None
) -> Answer:
    if group is None and transactional_id is None:
        raise NotNow("GET /test/coordinator: pass group or transactional_id")
    key = group or transactional_id or ""
    topic = TRANSACTION_TOPIC if group is None else OFFSETS_TOPIC
    found = coordinator_of(cluster, key, topic)
    if found is None:
        return {"coordinator": None}
    [broker_id] = [broker_id for broker_id, each in cluster.brokers.items() if each is found]
    partition = partition_for(key, len(cluster.truth.partitions(topic)))
    return {"coordinator": broker_id, "topic": topic, "partition": partition}


_BY_PATH = {each.path: each for each in (*happened.VERBS, *groups.VERBS)}

VERBS = (
    Verb(
        "GET",
        "/coordinator",
        "returns the broker that coordinates a group or a transactional id",
        coordinator,
        (
            Argument("group", TEXT, "the group's id"),
            Argument("transactional_id", TEXT, "the transactional id"),
        ),
    ),
    _merged(_BY_PATH["/groups"], "groups"),
    *(_at_coordinator(_BY_PATH[each]) for each in ("/members", "/committed", "/journal")),
    _at_coordinator(_BY_PATH["/groups/rebalance"]),
    replace(_BY_PATH["/records"], do=records),
)
