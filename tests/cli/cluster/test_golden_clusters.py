"""Golden sessions of `muster cluster describe|why|check`, with the output for each kind of fault.

Three brokers run in this process with a simulated ZooKeeper. The expected output is in
`tests/cli/golden/clusters`. There, N replaces durations and epochs that differ between runs.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import uvloop
from structlog.testing import capture_logs

from broker.broker import Broker
from broker.cluster.zookeeper.zookeeper import Create
from broker.test_mode.registry.memory_zookeeper import MemoryZooKeeper
from broker.time import Time
from broker.topics.replicas.replica import Replica
from log.files.filesystem import FileSystem
from protocol.znodes import topics
from replication.in_sync import behind
from tests.broker.cluster.members import LISTENER, Members, members
from tests.broker.filling_disk import FillingFiles
from tests.broker.serving import asked, eventually
from tests.broker.topic_calls import produce
from tests.brokers import free_port
from tests.cli import sessions
from tests.tiers import sampled
from tests.wire import batch

ORDERS = [[3, 1, 2], [2, 1, 3], [1, 2, 3]]
"""The replicas of each partition, with the leader first."""
SETTINGS = {
    "http.listener": "127.0.0.1:0",
    "auto.leader.rebalance.enable": "false",
    "min.insync.replicas": "2",
}
LAG = {
    "min.insync.replicas": "1",
    "replica.lag.time.max.ms": "3000",
    "replica.fetch.backoff.ms": "50",
}
AT_ONCE = {"controlled.shutdown.enable": "false"}
"""With this setting, a broker that stops does not notify the controller, as if it were killed."""
AHEAD_S = 90
WITHIN_S = 240
_VARIES = re.compile(
    r"\d+\.\d s(?= ago| or more)|(?:90\.0|8\d\.\d) s(?= ahead)"
    r"|(?<=broker epoch )\d+|(?<=  epoch )\d+"
)
"""Matches numbers that differ from run to run because of the machine's load, such as ages. In one
of the clusters, the clock of a broker is 90 s ahead; commands print 90 s minus the duration of the
request."""
_SOONER = re.compile(
    r"^(\S+  broker (\d) has registered  \(broker \d\)\n)"
    r"((?:\S+  the ZooKeeper session is established\n)?"
    r"\S+  broker \2 has registered \(broker epoch N\)\n)",
    re.MULTILINE,
)
"""Matches two entries about the same registration if the controller's entry is before the broker's
entry. The order of these entries differs between runs."""


@asynccontextmanager
async def three(
    folder: Path,
    settings: Mapping[str, str] | None = None,
    files: Mapping[int, FileSystem] | None = None,
) -> AsyncIterator[Members]:
    """Yields a cluster of three brokers with the topic orders. Broker 1 is the controller."""
    with capture_logs():
        async with members(folder, {**SETTINGS, **(settings or {})}, files) as there:
            await create(there, "orders", ORDERS)
            yield there


async def called(broker: Broker, name: str, version: int, **value: Any) -> Any:
    return await asked(broker, lambda wire: wire.call(name, version, value))


async def create(there: Members, name: str, replicas: list[list[int]]) -> None:
    """Creates a topic, and waits until its replicas are in sync and all brokers know the topic."""
    placed = [
        {"partition_index": index, "broker_ids": brokers} for index, brokers in enumerate(replicas)
    ]
    made = {"name": name, "num_partitions": -1, "replication_factor": -1, "assignments": placed}
    answer = await called(
        there.brokers[1], "CreateTopics", 5, topics=[{**made, "configs": []}], timeout_ms=10_000
    )
    assert [each["error_code"] for each in answer["topics"]] == [0], answer
    await await_in_sync(there, name, replicas)


def isr(there: Members, name: str, index: int) -> list[int]:
    """Returns the ISR of a partition that is stored in ZooKeeper."""
    node = there.ensemble.nodes[topics.state_path(name, index)]
    return sorted(topics.decode_state(name, index, node.data or b"").isr)


async def await_in_sync(there: Members, name: str, replicas: list[list[int]]) -> None:
    """Waits until all brokers know a leader and the full ISR of each partition of the topic."""

    def is_so() -> bool:
        for index, brokers in enumerate(replicas):
            views = [each.cluster.partition(name, index) for each in there.brokers.values()]
            if any(view is None or sorted(view.isr) != sorted(brokers) for view in views):
                return False
            if any(view is None or view.leader not in brokers for view in views):
                return False
        return True

    await eventually(f"{name} is whole", is_so)
    await eventually(f"all fetch {name}", lambda: all_have_fetched(there, name, replicas))


def all_have_fetched(there: Members, name: str, replicas: list[list[int]]) -> bool:
    """Returns True if each leader of the topic has received a Fetch from each of its followers."""
    for broker in there.brokers.values():
        for index, brokers in enumerate(replicas):
            entry = broker.logs.topics.get(name)
            replica = None if entry is None else entry.partition(index)
            if isinstance(replica, Replica) and replica.led is not None:
                now_ms = broker.sources.time.now().mono_ms
                followers = {*brokers} - {broker.registry.node_id}
                found = [behind(replica.led, each, now_ms) for each in followers]
                if any(each.caught_up_ago_ms < 0 for each in found):
                    return False
    return True


async def known(there: Members, name: str, index: int, leader: int, in_sync: list[int]) -> None:
    """Waits until all brokers know this leader and this ISR of the partition."""

    def is_so() -> bool:
        views = [each.cluster.partition(name, index) for each in there.brokers.values()]
        return all(view and (view.leader, sorted(view.isr)) == (leader, in_sync) for view in views)

    await eventually(f"{name}-{index} is led by {leader} with {in_sync}", is_so)


async def without_three(there: Members) -> None:
    """Waits until broker 3 is absent from the metadata of all other brokers."""

    def is_so() -> bool:
        return all(len(each.cluster.brokers(LISTENER)) == 2 for each in there.brokers.values())

    await eventually("3 is gone", is_so)


async def play(there: Members, name: str, more: Iterable[Broker] = ()) -> None:
    """Runs the commands of a golden session on the running brokers and compares the output with the
    file."""
    ports = {node: each.sockets.addresses()[0][1] for node, each in there.brokers.items()}
    addresses = [f"127.0.0.1:{port}" for port in ports.values()]
    addresses += [f"127.0.0.1:{each.sockets.addresses()[0][1]}" for each in more]
    cluster = next(iter(there.brokers.values())).registry.cluster_id
    replaced = [(str(cluster), "CLUSTER")]
    await asyncio.to_thread(_checked, name, ",".join(addresses), replaced)


def _in_order(text: str) -> str:
    return _SOONER.sub(r"\3\1", _VARIES.sub("N", text))


def _checked(name: str, bootstrap: str, replaced: list[tuple[str, str]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MUSTER_BOOTSTRAP", bootstrap)
        steady = sessions.steady
        patch.setattr(sessions, "steady", lambda text, more=(): _in_order(steady(text, more)))
        sessions.check(f"clusters/{name}", replaced)


async def a_broker_is_stopped_and_comes_back(folder: Path) -> None:
    async with three(folder) as there:
        await play(there, "whole")
        await there.stop(3)
        for index, leader in enumerate((1, 2, 1)):
            await known(there, "orders", index, leader, [1, 2])
        await without_three(there)
        await play(there, "stopped")
        await there.start(3)
        await await_in_sync(there, "orders", ORDERS)
        await play(there, "back")
        elected = await called(
            there.brokers[1], "ElectLeaders", 2, election_type=0, topic_partitions=None,
            timeout_ms=10_000,
        )  # fmt: skip
        assert elected["error_code"] == 0
        await known(there, "orders", 0, 3, [1, 2, 3])
        await play(there, "preferred")


async def a_leader_is_killed(folder: Path) -> None:
    async with three(folder, AT_ONCE) as there:
        await create(there, "alone", [[3], [1]])
        await there.stop(3)
        await known(there, "orders", 0, 1, [1, 2])
        await known(there, "orders", 1, 2, [1, 2])
        await known(there, "orders", 2, 1, [1, 2])
        await known(there, "alone", 0, -1, [3])
        await without_three(there)
        await play(there, "killed")


async def replicas_move(folder: Path) -> None:
    async with three(folder) as there:
        await create(there, "events", [[2, 1]])
        moved = {"name": "events", "partitions": [{"partition_index": 0, "replicas": [3, 2]}]}
        answer = await called(
            there.brokers[1], "AlterPartitionReassignments", 0, timeout_ms=10_000, topics=[moved]
        )
        assert answer["error_code"] == 0
        await await_in_sync(there, "events", [[3, 2]])
        await play(there, "reassigned")


async def a_deletion_waits_and_the_controller_moves(folder: Path) -> None:
    async with three(folder) as there:
        await create(there, "events", [[1, 3]])
        await there.stop(3)
        await known(there, "events", 0, 1, [1])
        await called(there.brokers[1], "DeleteTopics", 5, topic_names=["events"], timeout_ms=100)
        await eventually("it waits", lambda: waits(there.brokers[1]))
        await play(there, "deletion")
        await there.stop(1)
        await eventually("2 is the controller", lambda: waits(there.brokers[2]))
        await there.start(1)
        await known(there, "orders", 0, 2, [1, 2])
        await play(there, "controller")


def waits(broker: Broker) -> bool:
    """Returns True if the broker is the controller and one of its operations waits for another
    broker."""
    member = broker.sources.member
    assert member is not None
    term = member.host.term
    return term is not None and any(found for found in term.waits(None))


async def replicas_fall_out_of_sync(folder: Path) -> None:
    disk = FillingFiles()
    async with three(folder, LAG, {3: disk}) as there:
        leader = there.brokers[1]
        await create(there, "full", [[1, 3]])
        await create(there, "silent", [[1, 2]])
        disk.full = range(1 << 40)
        member = there.brokers[2].sources.member
        assert member is not None
        await member.fetchers.stop()
        for topic in ("full", "silent"):
            written = await asked(
                leader, lambda wire, name=topic: produce(wire, name, batch(b"v"), acks=1)
            )
            assert written["error_code"] == 0
        await eventually(
            "both are out", lambda: isr(there, "full", 0) == isr(there, "silent", 0) == [1]
        )
        await play(there, "out-of-sync")
        disk.full = range(0)
        await eventually("it is back", lambda: isr(there, "full", 0) == [1, 3])
        await play(there, "in-sync-again")


async def all_is_wrong(folder: Path) -> None:
    async with three(folder) as there:
        await there.stop(3)
        await there.start(3, free_port())
        await await_in_sync(there, "orders", ORDERS)
        old = there.brokers.pop(3)
        member = old.sources.member
        assert member is not None
        session = member.joined.zookeeper
        assert isinstance(session, MemoryZooKeeper)
        session.suspend()
        there.ensemble.end_session(session.session)
        ahead = Time(wall_s=lambda: time.time() + AHEAD_S)
        (folder / "1" / "gone-0").mkdir()
        (folder / "1" / "orders-0.00ff-stray").mkdir()
        there.ensemble.do([Create("/brokers/topics/bad", b"[]", False, False)], 0)
        there.folder = folder / "of others"
        await there.start(3, time=ahead)
        await there.settled()
        await await_in_sync(there, "orders", ORDERS)
        try:
            await play(there, "wrong", [old])
        finally:
            await old.stop()


STORIES = [
    a_broker_is_stopped_and_comes_back,
    a_leader_is_killed,
    replicas_move,
    a_deletion_waits_and_the_controller_moves,
    replicas_fall_out_of_sync,
    all_is_wrong,
]


@pytest.mark.parametrize(
    "story", sampled(STORIES, (replicas_move,)), ids=lambda story: story.__name__
)
def test_cluster_commands_print_the_golden_output_for_each_fault(
    story: Callable[[Path], Coroutine[Any, Any, None]], tmp_path: Path
) -> None:
    async def told() -> None:
        await asyncio.wait_for(story(tmp_path), WITHIN_S)

    uvloop.run(told())
