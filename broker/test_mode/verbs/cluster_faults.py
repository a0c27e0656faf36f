"""The verbs that move leaders, shrink the ISR and cut the links of a broker in a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from broker.test_mode.arguments import COUNT, POSITIVE, TEXT, TEXTS, Argument
from broker.test_mode.cluster import leaders
from broker.test_mode.cluster.isolation import hold_fetches, isolate, pause
from broker.test_mode.cluster.tested_cluster import BROKERS, CLIENTS, REGISTRY, TestedCluster
from broker.test_mode.faults import ALL, NoSuchFault
from broker.test_mode.refusals import NotNow, UnknownVerb, WrongArgument
from broker.test_mode.verbs.cluster import shown
from broker.test_mode.verbs.coordinated import leader_of
from broker.test_mode.verbs.verb import Answer, Verb
from broker.topics.replicas.replica import Replica

_ISOLATE = "POST /test/isolate"
SHRINKS_WITHIN_S = 10.0


async def move_leader(cluster: TestedCluster, topic: str, partition: int, to: int | None) -> Answer:
    moved = await leaders.move_leader(cluster, topic, partition, to)
    return shown(moved, cluster.truth.registered)


async def elect_unclean(cluster: TestedCluster, topic: str, partition: int) -> Answer:
    """Elects an out-of-sync replica as leader of a partition that has no leader."""
    elected = await leaders.elect_unclean(cluster, topic, partition)
    return shown(elected, cluster.truth.registered)


async def why(cluster: TestedCluster, topic: str, partition: int) -> Answer:
    """Returns the events of a partition with their reasons."""
    return {"events": leaders.story_of(cluster, topic, partition)}


async def begin_isolation(cluster: TestedCluster, broker: int, from_: Sequence[str]) -> Answer:
    cluster.running(broker)
    accepted = f"{CLIENTS}, {BROKERS}, {REGISTRY} or the ids of other brokers"
    if not from_:
        raise WrongArgument(f"{_ISOLATE}: from is empty; choose {accepted}")
    sides: list[str | int] = []
    for each in from_:
        if each in (CLIENTS, BROKERS, REGISTRY):
            sides.append(each)
        elif each == str(broker):
            raise WrongArgument(
                f"{_ISOLATE}: from: broker {each} can't be isolated from itself; choose {accepted}"
            )
        elif each.isascii() and each.isdigit() and int(each) in cluster.brokers:
            sides.append(int(each))
        else:
            raise WrongArgument(f"{_ISOLATE}: from: unknown side {each!r}; choose {accepted}")
    await cluster.before_losses()
    fault = cluster.faults.begin(isolate(cluster, broker, sides))
    return {"id": fault.fault_id}


async def begin_pause(cluster: TestedCluster, broker: int) -> Answer:
    cluster.running(broker)
    await cluster.before_losses()
    return {"id": cluster.faults.begin(pause(cluster, broker)).fault_id}


async def shrink_isr(
    cluster: TestedCluster, topic: str, partition: int, brokers: Sequence[str]
) -> Answer:
    """Starts a fault that holds the fetch requests of followers, so that these leave the ISR.
    ``brokers`` selects the followers; by default, all followers."""
    _, state = leaders.state_of(cluster, topic, partition)
    leader = leader_of(cluster, topic, partition)
    followers = [int(each) for each in brokers] or [x for x in state.isr if x != state.leader]
    unknown = [each for each in followers if each not in state.isr or each == state.leader]
    if unknown:
        raise NotNow(
            f"POST /test/shrink_isr: broker {unknown[0]} is not a follower in the ISR of"
            f" {topic}-{partition}"
        )
    if not cluster.registry.is_connected(state.leader):
        raise NotNow(
            f"POST /test/shrink_isr: broker {state.leader}, the leader of {topic}-{partition}, is"
            " paused or can't reach the registry, so it can't change the ISR: end that fault first"
        )
    replica = cast(Replica, leader.broker.logs.get(topic, partition))
    fault = cluster.faults.begin(hold_fetches(cluster, state.leader, followers))
    try:
        async with cluster.system.within(SHRINKS_WITHIN_S):
            while set(followers) & set(leaders.state_of(cluster, topic, partition)[1].isr):
                replica.remove_from_isr(followers)
                await cluster.system.sleep(0.005)
    except TimeoutError:
        cluster.faults.end(fault.fault_id)
        raise NotNow(
            f"POST /test/shrink_isr: {topic}-{partition} still has the ISR"
            f" {leaders.state_of(cluster, topic, partition)[1].isr}"
        ) from None
    await cluster.settle()
    return {"id": fault.fault_id}


async def end(cluster: TestedCluster, fault_id: str) -> Answer:
    """Ends a fault of the cluster. Returns when all brokers know the state of the cluster."""
    try:
        faults = cluster.faults
        hits = faults.end_all() if fault_id == ALL else faults.end(fault_id)
    except NoSuchFault as error:
        raise UnknownVerb(f"DELETE /test/cluster/faults/{fault_id}: {error}") from None
    await cluster.settle()
    return {"hits": hits}


async def look(cluster: TestedCluster) -> Answer:
    return {"faults": cluster.faults.rows()}


_TOPIC = Argument("topic", TEXT, "the topic's name", required=True)
_PARTITION = Argument("partition", COUNT, "the partition", default=0)

VERBS = (
    Verb(
        "POST",
        "/move_leader",
        "elects another in-sync replica as leader, which becomes the preferred leader",
        move_leader,
        (
            _TOPIC,
            _PARTITION,
            Argument("to", POSITIVE, "the new leader; by default another in-sync replica"),
        ),
    ),
    Verb(
        "POST",
        "/elect_unclean",
        "elects a replica that is not in sync, if all in-sync replicas are down",
        elect_unclean,
        (_TOPIC, _PARTITION),
    ),
    Verb(
        "POST",
        "/isolate",
        "cuts the links from a broker to clients, to other brokers, or to the registry",
        begin_isolation,
        (
            Argument("broker", POSITIVE, "the broker's id", required=True),
            Argument(
                "from",
                TEXTS,
                f"a list of {CLIENTS}, {BROKERS}, {REGISTRY} and ids of other brokers",
                default=(CLIENTS, BROKERS, REGISTRY),
                keyword="from_",
            ),
        ),
    ),
    Verb(
        "POST",
        "/pause",
        "suspends a broker as SIGSTOP does, until the fault ends",
        begin_pause,
        (Argument("broker", POSITIVE, "the broker's id", required=True),),
    ),
    Verb(
        "POST",
        "/shrink_isr",
        "removes followers from the ISR; the leader leaves their fetches unanswered",
        shrink_isr,
        (
            _TOPIC,
            _PARTITION,
            Argument("brokers", TEXTS, "the ids of the followers; all by default", default=()),
        ),
    ),
    Verb("GET", "/cluster/faults", "returns the current faults of the cluster", look),
    Verb(
        "DELETE",
        "/cluster/faults/{id}",
        "ends a fault of the cluster, or all of them",
        end,
        (Argument("id", TEXT, f"the fault's id, or {ALL}", required=True, keyword="fault_id"),),
    ),
    Verb(
        "GET",
        "/why",
        "returns why the leader and the ISR of a partition changed, oldest first",
        why,
        (_TOPIC, _PARTITION),
    ),
)
