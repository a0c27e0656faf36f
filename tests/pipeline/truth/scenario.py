"""The scenario: groups of every type on a broker. Their clients record the results of their
requests.

Each function runs one group. `KAFKA` lists the functions of all seventeen groups. `MUSTER` lists
those nine that need neither transactions nor a newer group type.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.brokers import Broker
from tests.interop.cluster import Cluster
from tests.pipeline.truth.library_clients import (
    Exactly,
    Members,
    aiokafka_commits,
    by_itself,
    kafka_python_commits,
    produce,
    reset_by_tool,
)
from tests.pipeline.truth.told import Generation, Person, Told, now_ms
from tests.pipeline.truth.wire_clients import (
    Asker,
    Member,
    Producer,
    emptied,
    fresh_id,
    rebalance,
)
from tests.waiting import until

DATES = {
    "tomorrow": {"message.timestamp.after.max.ms": str(2**62)},
    "copied": {"retention.ms": "-1"},  # otherwise Kafka deletes last year's records during the run
}
"""Settings of the topics whose record timestamps are far from the current time."""
TOPICS = {"orders": 3, "payments": 2, "tomorrow": 1, "out": 1, "copied": 4}
HOUR_MS = 3_600_000
AHEAD_MS = 50 * 365 * 24 * HOUR_MS
"""The difference in ms between the timestamps in topic `tomorrow` and the actual time: 50 years, so
that these timestamps are in the future whenever the test runs."""
YEAR_MS = 365 * 24 * HOUR_MS
ORDERS, PAYMENTS, TOMORROW = ("orders", 0), ("payments", 0), ("tomorrow", 0)
SETTINGS = {"offsets.topic.num.partitions": "3"}
KAFKA_SETTINGS = {
    **SETTINGS,
    "transaction.state.log.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "group.consumer.heartbeat.interval.ms": "100",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.min.assignment.interval.ms": "0",
    "group.share.heartbeat.interval.ms": "100",
    "group.share.min.heartbeat.interval.ms": "100",
    "group.share.assignment.interval.ms": "0",
    "group.share.min.assignment.interval.ms": "0",
    "group.coordinator.append.linger.ms": "0",
    # The members act once, and a busy machine reads their offsets a minute later.
    "group.streams.max.session.timeout.ms": "600000",
    "group.streams.session.timeout.ms": "600000",
    "group.share.max.session.timeout.ms": "600000",
    "group.share.session.timeout.ms": "600000",
    "group.streams.heartbeat.interval.ms": "100",
    "group.streams.min.heartbeat.interval.ms": "100",
    "group.streams.initial.rebalance.delay.ms": "0",
}


@dataclass
class World:
    """A running broker, and the results that its clients have recorded so far."""

    bootstrap: str
    data: Path
    told: Told = field(default_factory=Told)
    left_open: list[Any] = field(default_factory=list)
    """Members and open transactions that must still exist when the pipeline reads the history."""

    @property
    def port(self) -> int:
        return int(self.bootstrap.rpartition(":")[2])

    def asker(self) -> Asker:
        return Asker(self.told, self.port)

    def close(self) -> None:
        """Closes the members and transactions in `left_open`."""
        self.left_open.clear()

    def member(self, group: str, name: str, **more: Any) -> Member:
        """Adds a member of a classic group. The member subscribes to the topic orders."""
        return Member(self.told, self.port, group, name, ["orders"], **more)


def transacted(world: World) -> None:
    """Runs a group whose offsets are written in four transactions: offset 10 is committed, 150 is
    aborted, 20 is committed, and 5 is aborted."""
    consumer = by_itself(world.bootstrap, "transacted")
    producer = Exactly(world.told, world.bootstrap, "transacted")
    for offset, commit in ((10, True), (150, False), (20, True), (5, False)):
        producer.transact("transacted", consumer, {ORDERS: offset}, commit=commit, out="out")
        world.told.mark(f"{offset} {'committed' if commit else 'aborted'}")
    consumer.close()


def pending(world: World) -> None:
    """Runs a group with a transaction that never ends. The group also commits outside the
    transaction, before and after the commit in the transaction."""
    asker = world.asker()
    asker.commit("pending", {ORDERS: 30, ("orders", 1): 31}, "plain")
    producer = Producer(world.told, world.port, "pending")
    producer.begin()
    producer.send("pending", {ORDERS: 99}, "never", modern=True)
    asker.commit("pending", {("orders", 1): 32}, "behind")
    world.left_open.append(producer)


def between(world: World) -> None:
    """Runs a group that commits in transactions. Before some transactions end, the group also makes
    newer commits outside of transactions, which supersede the commits in the transactions."""
    asker, told = world.asker(), world.told
    one, two = (Producer(told, world.port, f"between-{n}") for n in (1, 2))
    asker.commit("between", {ORDERS: 40})
    one.begin()
    one.send("between", {ORDERS: 60, ("orders", 1): 61}, modern=False)
    asker.commit("between", {ORDERS: 50})
    one.end(commit=True)
    asker.commit("between", {ORDERS: 55})
    one.begin()
    one.send("between", {ORDERS: 68}, modern=False)
    one.send("between", {ORDERS: 70}, modern=False)
    one.end(commit=True)
    one.begin()
    one.send("between", {ORDERS: 80}, modern=False)
    two.begin()
    two.send("between", {ORDERS: 90}, modern=True)
    two.end(commit=True, modern=True)
    one.end(commit=True)
    two.begin()
    two.send("between", {("orders", 1): 65}, modern=True)
    asker.forget("between", "orders", 1)
    two.end(commit=True, modern=True)
    one.begin()
    one.send("between", {ORDERS: 1}, modern=False)
    one.end(commit=False)


def modern(world: World) -> None:
    """Runs a KIP-848 group whose members join and leave. One member is static. The group has
    commits, a rewind and transactions."""
    group = Members(world.told, world.bootstrap, "modern", ["orders"])
    group.start("ada")
    group.settle("ada")
    group.commit("ada", {ORDERS: 100, ("orders", 1): 10})
    group.start("bob")
    group.settle("ada", "bob")
    group.commit("ada", {ORDERS: 90} if held_by(group, "ada", 0) else {("orders", 1): 5})
    group.leave("ada")
    group.settle("bob")
    group.commit("bob", {("orders", 2): 20})
    producer = Exactly(world.told, world.bootstrap, "modern")
    bob = group.consumers["bob"]
    for offset, commit in ((30, True), (31, False)):
        offsets = {("orders", 2): offset}
        producer.transact("modern", bob, offsets, commit=commit, by="bob")
    group.start("cyd", instance="cyd-1")
    group.settle("bob", "cyd")
    world.left_open.append(group)


def held_by(group: Members, name: str, partition: int) -> bool:
    return partition in {each.partition for each in group.consumers[name].assignment()}


def converted(world: World) -> None:
    """Runs a classic group that a KIP-848 member joins, which converts the group. Later only a
    classic member remains, and the group becomes classic again."""
    told = world.told
    old = world.member("converted", "old")
    rebalance({"orders": 3}, old)
    old.takes({ORDERS: 11})
    group = Members(told, world.bootstrap, "converted", ["orders"])
    group.start("new")

    def follow() -> None:
        if old.must_rejoin():
            old.rejoin()

    group.settle("new", "old", meanwhile=follow)
    old.leave()
    group.settle("new")
    group.commit("new", {ORDERS: 12, ("orders", 1): 5})
    old.member_id, old.generation = "", -1
    old.rejoin()
    group.settle("new", "old", meanwhile=follow)
    group.leave("new")
    rebalance({"orders": 3}, old)
    old.takes({ORDERS: 13})
    world.left_open.append(old)


def static(world: World) -> None:
    """Runs a group with two static members. One member rejoins with a new member id, and the other
    is removed."""
    one, two = (world.member("static", name, instance=f"{name}-1") for name in ("one", "two"))
    rebalance({"orders": 3}, one)
    rebalance({"orders": 3}, one, two)
    one.takes({ORDERS: 21})
    back = world.member("static", "two", instance="two-1")
    made = Generation(group="static")
    with world.told.span(made):
        back.rejoin()
        made.number, made.members = back.generation, [one.person, back.person]
    back.takes({("orders", 1): 22})
    back.leave()
    rebalance({"orders": 3}, one)
    world.left_open.append(one)


def reborn(world: World) -> None:
    """Runs a group that is deleted and created again. After that, the group commits a lower offset,
    which does not count as a rewind."""
    member = world.member("reborn", "first")
    rebalance({"orders": 3}, member)
    member.takes({ORDERS: 70, ("orders", 1): 71})
    emptied(world.told, world.asker(), "reborn", member)
    world.told.mark("before reborn is deleted")
    world.asker().delete("reborn")
    world.told.mark("reborn is deleted")
    again = world.member("reborn", "second")
    rebalance({"orders": 3}, again)
    again.takes({ORDERS: 7})
    world.left_open.append(again)


def reset(world: World) -> None:
    """Runs a group whose member leaves. Then Apache's kafka-consumer-groups resets the offset of
    orders-0 to 5, and a commit without a member raises it to 12."""
    member = world.member("reset", "reader")
    rebalance({"orders": 3}, member)
    member.takes({ORDERS: 80})
    emptied(world.told, world.asker(), "reset", member)
    reset_by_tool(world.told, world.bootstrap, "reset", "orders", 0, 5)
    world.asker().commit("reset", {ORDERS: 12}, "set forth")


def steady(world: World) -> None:
    """Runs a group in which two members stay, one member crashes, and one member rewinds its
    partition."""
    one, two = (world.member("steady", name) for name in ("one", "two"))
    rebalance({"orders": 3}, one)
    one.takes({ORDERS: 10, ("orders", 1): 10, ("orders", 2): 10})
    rebalance({"orders": 3}, one, two)
    one.takes({ORDERS: 50}, "m")
    one.takes({ORDERS: 40}, "back")
    two.takes({("orders", 1): 51})
    mortal = world.member("steady", "mortal", session_ms=3000)
    rebalance({"orders": 3}, one, two, mortal)
    mortal.takes({("orders", 2): 52})
    rebalance({"orders": 3}, one, two)
    world.left_open += [one, two]


def future(world: World) -> None:
    """Runs a group that reads a topic whose timestamps are years in the future."""
    aiokafka_commits(world.told, world.bootstrap, "future", {TOMORROW: 3})


def simple(world: World) -> None:
    """Runs a group that commits without members. One offset is deleted, and one offset is after the
    log end."""
    offsets = {ORDERS: 30, ("orders", 1): 16, PAYMENTS: 999}
    kafka_python_commits(world.told, world.bootstrap, "simple", offsets)
    world.asker().commit("simple", {("orders", 1): 26}, "é\u0000")
    world.asker().forget("simple", "orders", 1)


def copies(world: World) -> None:
    """Commits offsets in the topic `copied`, which contains copies of records from last year. In
    some partitions, new records surround or follow the copies. Other partitions have only copies of
    old records."""
    offsets = {("copied", 0): 50, ("copied", 1): 0, ("copied", 2): 250, ("copied", 3): 40}
    world.asker().commit("copies", offsets)


def gone(world: World) -> None:
    member = world.member("gone", "last")
    rebalance({"orders": 3}, member)
    member.takes({ORDERS: 1})
    emptied(world.told, world.asker(), "gone", member)
    world.asker().delete("gone")


def idle(world: World) -> None:
    """Runs a group that had a member and never committed."""
    member = world.member("idle", "nobody")
    rebalance({"orders": 3}, member)
    emptied(world.told, world.asker(), "idle", member)


def vanished(world: World) -> None:
    """Runs a KIP-848 group whose members leave. The group is then deleted."""
    group = Members(world.told, world.bootstrap, "vanished", ["orders"])
    group.start("eve")
    group.settle("eve")
    group.commit("eve", {ORDERS: 9})
    group.leave("eve")
    group.settle()
    world.asker().delete("vanished")


def shared(world: World) -> None:
    asker, who = Asker(world.told, world.port, "sharer"), fresh_id()
    made = Generation(group="shared", kind="share")
    epoch = 0

    def assigned() -> bool:
        nonlocal epoch
        answer = asker.ask(
            "ShareGroupHeartbeat", 1, group_id="shared", member_id=who, member_epoch=epoch,
            subscribed_topic_names=["orders"] if epoch == 0 else None,
        )  # fmt: skip
        assert answer["error_code"] == 0, answer
        epoch = answer["member_epoch"]
        made.number = epoch
        return bool(answer["assignment"] and answer["assignment"]["topic_partitions"])

    with world.told.span(made):
        until("the share group's member has partitions", assigned, tolerate=())
        made.members = [Person(who, "sharer", None, {"orders": [0, 1, 2]})]


def streams(world: World) -> None:
    asker, who = Asker(world.told, world.port, "streamer"), fresh_id()
    part = {
        "subtopology_id": "0", "source_topics": ["orders"], "source_topic_regex": [],
        "state_changelog_topics": [], "repartition_sink_topics": [],
        "repartition_source_topics": [], "copartition_groups": [],
    }  # fmt: skip
    made = Generation(group="streams", kind="streams")
    epoch = 0

    def assigned() -> bool:
        nonlocal epoch
        first = {
            "topology": {"epoch": 0, "subtopologies": [part]}, "rebalance_timeout_ms": 30_000,
            "active_tasks": [], "standby_tasks": [], "warmup_tasks": [], "process_id": who,
            "client_tags": [],
        }  # fmt: skip
        answer = asker.ask(
            "StreamsGroupHeartbeat", 0, group_id="streams", member_id=who, member_epoch=epoch,
            **(first if epoch == 0 else {}),
        )  # fmt: skip
        assert answer["error_code"] == 0, answer
        epoch = answer["member_epoch"]
        made.number = epoch
        return bool(answer["active_tasks"])

    with world.told.span(made):
        until("the streams group's member has tasks", assigned, tolerate=())
        made.members = [Person(who, "streamer")]


MUSTER = (steady, static, reborn, reset, future, simple, copies, gone, idle)
KAFKA = (
    transacted, pending, between, modern, converted, *MUSTER, vanished, shared, streams,
)  # fmt: skip


def play(broker: Broker, lives: tuple[Callable[[World], None], ...]) -> World:
    """Runs the groups of ``lives`` on a running broker. Members that do not leave by themselves
    stay in their groups until the returned `World` is closed."""
    world = World(broker.bootstrap, broker.data)
    cluster = Cluster(broker.bootstrap)
    for topic, partitions in TOPICS.items():
        cluster.create_topic(topic, partitions, **DATES.get(topic, {}))
    feed(world)
    ready = world.asker()
    until("there is a coordinator", lambda: _has_coordinator(ready))
    for life in lives:
        life(world)
        world.told.mark(f"after {life.__name__}")
    _ask_at_the_end(world, cluster)
    return world


def feed(world: World) -> None:
    """Produces records with known timestamps into all topics.

    Topic orders gets records of one hour at uneven intervals. Topic payments gets all its records
    at once. Topic tomorrow gets future timestamps. Topic copied gets copies of records that are a
    year old: some alone, some next to live records.
    """
    now = world.told.begun_ms = now_ms()
    begin = now - HOUR_MS
    uneven = [begin + n * n * 300 for n in range(100)]
    orders = {
        partition: [uneven[:30], uneven[30:31], uneven[31:100], [now - 2000, now - 1000]]
        for partition in range(3)
    }
    produce(world.told, world.bootstrap, "orders", orders)
    produce(world.told, world.bootstrap, "payments", {0: [[now - 60_000] * 5], 1: [[now - 5000]]})
    ahead = [[now + AHEAD_MS + n * 1000 for n in range(10)]]
    produce(world.told, world.bootstrap, "tomorrow", {0: ahead})
    year = now - YEAR_MS
    old, late = [year + n for n in range(500)], [year + n * 1000 for n in range(100)]
    for partition, batches in enumerate(([50, old[:100], 50], [old, 50], [old], [late])):
        for batch in batches:
            dates = [now_ms()] * batch if isinstance(batch, int) else batch
            produce(world.told, world.bootstrap, "copied", {partition: [dates]})


def _has_coordinator(asker: Asker) -> bool:
    answer = asker.wire.call("OffsetFetch", 7, {"group_id": "anybody", "topics": None})
    found = asker.ask("FindCoordinator", 2, key="anybody", key_type=0)
    return not answer["error_code"] and not found["error_code"]


def _ask_at_the_end(world: World, cluster: Cluster) -> None:
    told, asker = world.told, world.asker()
    listed = asker.ask("ListGroups", 4, states_filter=[])["groups"]
    told.listed = {each["group_id"]: each["group_state"] for each in listed}
    for group in told.listed:
        if group not in ("shared",):
            told.committed[group] = {
                f"{topic}:{partition}": offset
                for (topic, partition), offset in cluster.committed(group).items()
            }
    for topic, partitions in TOPICS.items():
        for (name, partition), end in cluster.end_offsets(topic, partitions).items():
            told.ends[f"{name}:{partition}"] = end
    told.until_ms = now_ms()
