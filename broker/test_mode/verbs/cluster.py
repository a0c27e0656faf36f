"""The verbs for the brokers of a cluster: start, stop and kill, and reading leaders and ISRs. A
verb that changes the cluster returns when every broker that can reach the registry knows the
change, so that clients see it in the metadata of each broker."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from broker.test_mode.arguments import COUNT, FLAG, OBJECTS, POSITIVE, TEXT, TEXTS, Argument
from broker.test_mode.cluster.tested_cluster import TestedCluster
from broker.test_mode.refusals import NotNow
from broker.test_mode.registry.truth import PartitionState
from broker.test_mode.tested_broker import CANNOT_START
from broker.test_mode.verbs import life, topics
from broker.test_mode.verbs.verb import Answer, Verb


async def look(cluster: TestedCluster) -> Answer:
    """Returns the brokers, the controller, and whether all brokers know the same state."""
    truth = cluster.truth
    registered = truth.registered
    return {
        "controller": truth.controller_id,
        "is_settled": cluster.is_settled,
        "brokers": [
            {
                "broker": broker_id,
                "is_running": each.is_running,
                "is_registered": broker_id in registered,
                "bootstrap_servers": each.addresses.bootstrap_servers,
                "http": f"http://{each.addresses.http}",
            }
            for broker_id, each in cluster.brokers.items()
        ],
    }


async def partitions(cluster: TestedCluster, topic: str | None, partition: int | None) -> Answer:
    """Returns leader, epoch, replicas and ISR of each partition: of all topics, of ``topic``, or of
    its one partition ``partition``."""
    truth = cluster.truth
    registered = truth.registered
    names = truth.topics if topic is None else [topic]
    return {
        "is_settled": cluster.is_settled,
        "partitions": [
            shown(each, registered)
            for name in names
            for each in truth.partitions(name)
            if partition in (None, each.partition)
        ],
    }


def shown(there: PartitionState, registered: Collection[int]) -> dict[str, Any]:
    """Returns a partition as JSON. As in Kafka's metadata, a broker that is not registered leads no
    partition, even if the registry still names this broker: if all brokers are down, no controller
    changes the registry."""
    state = there.state
    leader = state.leader if state is not None and state.leader in registered else None
    return {
        "topic": there.topic,
        "partition": there.partition,
        "leader": leader,
        "leader_epoch": -1 if state is None else state.leader_epoch,
        "replicas": list(there.replicas),
        "isr": [] if state is None else list(state.isr),
    }


# -- life


async def reset(cluster: TestedCluster) -> Answer:
    """Replaces all brokers by new brokers without data."""
    try:
        return {"took_ms": round(await cluster.reset(), 3)}
    except (*CANNOT_START, OSError) as error:
        raise NotNow(f"POST /test/reset: {error}") from None


async def kill(cluster: TestedCluster, broker: int, expire: bool) -> Answer:
    await cluster.kill(broker, expire)
    return await look(cluster)


async def stop(cluster: TestedCluster, broker: int) -> Answer:
    await cluster.stop(broker)
    return await look(cluster)


async def start(cluster: TestedCluster, broker: int) -> Answer:
    try:
        await cluster.start_one(broker)
    except (*CANNOT_START, OSError) as error:
        raise NotNow(f"POST /test/start: {error}") from None
    return await look(cluster)


# -- topics


async def create_all(cluster: TestedCluster, topics_: Sequence[Mapping[str, Any]]) -> Answer:
    """Creates topics through the controller. Returns when every broker knows their leaders."""
    answer = await topics.create_all(cluster.controller, topics_)
    await cluster.settle()
    return answer


async def delete_all(cluster: TestedCluster, names: Sequence[str]) -> Answer:
    """Deletes topics. Returns when every broker has deleted them."""
    answer = await topics.delete_all(cluster.controller, names)
    await cluster.settle()
    return answer


_BROKER = Argument("broker", POSITIVE, "the broker's id", required=True)

VERBS = (
    Verb("GET", "/cluster", "returns the brokers and the controller", look),
    Verb(
        "GET",
        "/partitions",
        "returns leader, epoch, replicas and ISR of each partition",
        partitions,
        (
            Argument("topic", TEXT, "only this topic"),
            Argument("partition", COUNT, "only this partition"),
        ),
    ),
    Verb(
        "POST",
        "/reset",
        "empties all brokers, ends all faults and returns to real time; the addresses stay the"
        " same",
        reset,
    ),
    Verb(
        "POST",
        "/kill",
        "kills a broker as SIGKILL does; returns when the other brokers know the new leaders",
        kill,
        (
            _BROKER,
            Argument(
                "expire",
                FLAG,
                "true: the broker's session in the registry ends at once; false: at its timeout",
                default=True,
            ),
        ),
    ),
    Verb(
        "POST",
        "/stop",
        "stops a broker as SIGTERM does; the broker hands over its leaderships",
        stop,
        (_BROKER,),
    ),
    Verb("POST", "/start", "starts a stopped broker with its data", start, (_BROKER,)),
    life.LINES,
    Verb(
        "POST",
        "/topics",
        "creates topics; returns when every broker knows their leaders",
        create_all,
        (
            Argument(
                "topics",
                OBJECTS,
                'a list of {"name", "partitions", "replication_factor", "configs"}',
                required=True,
                keyword="topics_",
            ),
        ),
    ),
    Verb(
        "POST",
        "/topics/delete",
        "deletes topics with their records and committed offsets",
        delete_all,
        (Argument("names", TEXTS, "the topics' names", required=True),),
    ),
)
