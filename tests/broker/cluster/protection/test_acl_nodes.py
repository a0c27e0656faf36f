"""Tests ACLs in ZooKeeper: each broker reads and changes the ACL nodes, and applies changes of
other brokers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from broker.cluster.protection.acl_nodes import AT_ONCE, ZooKeeperAcls
from broker.cluster.zookeeper import zookeeper as zookeeper_module
from broker.cluster.zookeeper.zookeeper import ensure_path
from broker.loop.internal_errors import InternalErrors
from broker.loop.slices import Slicer
from broker.test_mode.registry.ensemble import Ensemble
from broker.test_mode.registry.memory_zookeeper import MemoryZooKeeper
from broker.time import Time
from protocol.znodes import acls
from security.acls.model import (
    AclEntry,
    Operation,
    Pattern,
    PatternType,
    Permission,
    ResourceType,
)

DATA = Path(__file__).resolve().parents[3] / "data" / "znodes" / "security-kafka-3.9.2.json"
TOPIC = "/kafka-acl/Topic/t"


def entry(
    principal: str,
    name: str = "t",
    operation: Operation = Operation.READ,
    *,
    prefixed: bool = False,
) -> AclEntry:
    kind = PatternType.PREFIXED if prefixed else PatternType.LITERAL
    pattern = Pattern(ResourceType.TOPIC, name, kind)
    return AclEntry(pattern, f"User:{principal}", "*", operation, Permission.ALLOW)


class Scene:
    """Brokers that share a ZooKeeper ensemble."""

    def __init__(self) -> None:
        self.ensemble = Ensemble()
        # With an earlier time, each notice would be old.
        self.ensemble.now_ms = Time().now().wall_ms
        self.tool = MemoryZooKeeper(self.ensemble)
        self.errors = InternalErrors()
        self.stores: list[ZooKeeperAcls] = []

    async def broker(
        self, *, has_prefixes: bool = True, time: Time | None = None
    ) -> tuple[ZooKeeperAcls, MemoryZooKeeper]:
        zookeeper = MemoryZooKeeper(self.ensemble)
        time = time or Time()
        store = ZooKeeperAcls(
            zookeeper,
            time,
            lambda work, name: asyncio.get_running_loop().create_task(work, name=name),
            self.errors,
            Slicer(time, slice_ns=0),
            has_prefixes=has_prefixes,
        )
        self.stores.append(store)
        await store.open()
        return store, zookeeper

    def data(self, path: str) -> bytes | None:
        return self.ensemble.nodes[path].data if path in self.ensemble.nodes else None

    async def put(self, path: str, data: bytes) -> None:
        await ensure_path(self.tool, path.rpartition("/")[0])
        await self.tool.create(path, data)

    async def until(self, condition: Callable[[], bool]) -> None:
        for _ in range(10_000):
            if condition():
                return
            await asyncio.sleep(0)
        raise AssertionError("it never came true")


@asynccontextmanager
async def scene() -> AsyncIterator[Scene]:
    async with asyncio.timeout(120):
        there = Scene()
        yield there
        for store in there.stores:
            store.stop()
        assert not there.errors.counts.total()


async def test_acls_written_by_kafka_are_in_effect() -> None:
    recorded = json.loads(DATA.read_text())["nodes"]
    async with scene() as there:
        for path, text in recorded.items():
            if path.startswith("/kafka-acl") and text:
                await there.put(path, text.encode())
        store, _ = await there.broker()
        found = set(store.index)
        assert entry("alice", "t") in found
        assert entry("alice", "orders-", prefixed=True) in found
        assert len(found) == 11
        denied = Pattern(ResourceType.TOPIC, "t")
        assert AclEntry(denied, "User:*", "10.0.0.1", Operation.ALL, Permission.DENY) in found


async def test_acl_changes_on_one_broker_take_effect_on_the_other_broker() -> None:
    async with scene() as there:
        one, _ = await there.broker()
        other, _ = await there.broker()
        both = [entry("alice"), entry("bob", "p-", prefixed=True)]
        assert await one.change(both, []) == {}
        assert set(one.index) == {*both}
        await there.until(lambda: set(other.index) == {*both})
        assert there.data(TOPIC) == (
            b'{"acls":[{"principal":"User:alice","permissionType":"Allow","host":"*",'
            b'"operation":"Read"}],"version":1}'
        )
        assert await other.change([entry("carol")], [entry("alice"), entry("bob", "none")]) == {}
        await there.until(lambda: set(one.index) == {entry("carol"), both[1]})
        assert await one.change([], [entry("carol"), both[1]]) == {}
        await there.until(lambda: not len(other.index))
        assert TOPIC not in there.ensemble.nodes
        assert "/kafka-acl-extended/prefixed/Topic/p-" not in there.ensemble.nodes
        literal = await there.tool.children("/kafka-acl-changes")
        extended = await there.tool.children("/kafka-acl-extended-changes")
        assert (len(literal), len(extended)) == (3, 2)
        assert there.data(f"/kafka-acl-changes/{literal[0]}") == b"TOPIC:t"


async def test_acl_change_without_effect_does_not_write_a_node() -> None:
    async with scene() as there:
        store, _ = await there.broker()
        await store.change([entry("alice")], [])
        writes = len(there.ensemble.writes)
        assert await store.change([entry("alice")], [entry("bob")]) == {}
        assert len(there.ensemble.writes) == writes


async def test_concurrent_acl_changes_of_one_pattern_are_all_applied() -> None:
    async with scene() as there:
        brokers = [await there.broker() for _ in range(3)]
        await asyncio.gather(
            *[store.change([entry(f"u{i}")], []) for i, (store, _) in enumerate(brokers)]
        )
        wanted = {entry(f"u{i}") for i in range(3)}
        for store, _ in brokers:
            await there.until(lambda store=store: set(store.index) == wanted)


async def test_acl_with_an_unknown_operation_is_logged_and_kept_in_the_node() -> None:
    strange = {
        "principal": "User:x", "permissionType": "Allow", "host": "*", "operation": "Levitate",
    }  # fmt: skip
    async with scene() as there:
        await there.put(TOPIC, acls.encode_entries([strange]))
        with capture_logs() as logs:
            store, _ = await there.broker()
        assert [each["path"] for each in logs] == [TOPIC]
        assert len(store.index) == 0
        await store.change([entry("alice")], [])
        await store.change([], [entry("alice")])
        assert there.data(TOPIC) == acls.encode_entries([strange])


async def test_invalid_acl_node_is_ignored_and_not_overwritten() -> None:
    async with scene() as there:
        store, _ = await there.broker()
        await store.change([entry("alice")], [])
        with capture_logs() as logs:
            await there.tool.set(TOPIC, b"?")
            await there.tool.create("/kafka-acl-changes/acl_changes_", b"TOPIC:t", sequence=True)
            await there.tool.create("/kafka-acl-changes/acl_changes_", b"?", sequence=True)
            await there.until(lambda: len(logs) == 2)
        assert set(store.index) == {entry("alice")}
        failed = await store.change([entry("bob")], [])
        assert "is not JSON" in failed[entry("bob")]
        assert there.data(TOPIC) == b"?"


async def test_prefixed_acls_are_refused_in_clusters_with_old_brokers() -> None:
    """Kafka 0.10.2 does not support prefixed ACLs, and does not start if a resource type is
    unknown."""
    async with scene() as there:
        store, _ = await there.broker(has_prefixes=False)
        prefixed = entry("bob", "p-", prefixed=True)
        failed = await store.change([entry("alice"), prefixed], [])
        assert failed == {prefixed: "prefixed ACLs need inter.broker.protocol.version=2.0 or later"}
        assert set(store.index) == {entry("alice")}
        assert await there.tool.children("/kafka-acl") == ["Topic"]


@pytest.mark.parametrize("name", ["a/b", "..", "."])
async def test_acl_for_a_resource_name_that_cannot_be_a_znode_name_is_refused(name: str) -> None:
    async with scene() as there:
        store, _ = await there.broker()
        assert (
            "can't have a node"
            in (await store.change([entry("alice", name)], []))[entry("alice", name)]
        )


@pytest.mark.parametrize("expires", [False, True])
async def test_all_acls_are_read_again_after_a_reconnect(expires: bool) -> None:
    """Change notices may be written and deleted again while the broker is disconnected."""
    async with scene() as there:
        store, zookeeper = await there.broker()
        await store.change([entry("alice")], [])
        zookeeper.suspend()
        await there.tool.delete(TOPIC)
        await there.put("/kafka-acl/Topic/u", acls.encode_entries([_json("bob")]))
        if expires:
            there.ensemble.end_session(zookeeper.session)
        zookeeper.resume()
        await there.until(lambda: set(store.index) == {entry("bob", "u")})


def _json(principal: str) -> dict[str, str]:
    return {
        "principal": f"User:{principal}",
        "permissionType": "ALLOW",
        "host": "*",
        "operation": "read",
    }


async def test_acl_change_fails_with_a_reason_when_zookeeper_does_not_respond(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(zookeeper_module, "ANSWERS_S", 0.01)
    async with scene() as there:
        store, zookeeper = await there.broker()
        zookeeper.suspend()
        failed = await store.change([entry("alice")], [])
        assert "no answer from ZooKeeper" in failed[entry("alice")]
        assert len(store.index) == 0
        zookeeper.resume()


# -- nodes with thousands of entries

MANY = 3 * AT_ONCE


class HeldThreads(Time):
    """A clock whose threads start only when the test allows it."""

    def __init__(self) -> None:
        super().__init__()
        self.held: list[asyncio.Event] | None = None

    async def in_thread(self, work: Callable[..., Any], *args: Any) -> Any:
        if self.held is not None:
            self.held.append(begin := asyncio.Event())
            await begin.wait()
        return work(*args)


def many_acls(first: int = 0) -> list[AclEntry]:
    return [entry(f"one-of-very-many-{number:06}") for number in range(first, first + MANY)]


async def test_large_acl_node_is_applied_in_slices() -> None:
    async with scene() as there:
        one, _ = await there.broker(time=HeldThreads())
        other, _ = await there.broker(time=HeldThreads())
        sizes: list[tuple[int, int]] = []

        def taken() -> bool:
            sizes.append((len(one.index), len(other.index)))
            return sizes[-1] == (MANY, MANY)

        changing = asyncio.create_task(one.change(many_acls(), []))
        await there.until(taken)
        assert await changing == {}
        assert all(len(set(each)) > MANY // 2 for each in zip(*sizes, strict=True)), "in pieces"
        assert await one.change([], many_acls()[1:]) == {}
        await there.until(lambda: set(other.index) == {many_acls()[0]})


async def test_acknowledged_acl_change_is_not_undone_by_a_delayed_read() -> None:
    async with scene() as there:
        time = HeldThreads()
        one, _ = await there.broker(time=HeldThreads())
        other, _ = await there.broker(time=time)
        assert await one.change(many_acls(), []) == {}
        await there.until(lambda: len(other.index) == MANY)

        time.held = []
        assert await one.change([entry("alice")], []) == {}
        # The other broker reads the node with the ACL of alice.
        await there.until(lambda: len(time.held) == 1)
        late = time.held[0]
        time.held = None
        assert await other.change([], many_acls()) == {}  # This change removes all other ACLs.
        assert set(other.index) == {entry("alice")}
        late.set()
        await there.until(lambda: not other._taken)  # No change is in progress.
        assert set(other.index) == {entry("alice")}, "what was answered before is not taken behind"


async def test_acls_of_an_add_request_that_was_cancelled_can_be_removed() -> None:
    async with scene() as there:
        store, _ = await there.broker(time=HeldThreads())
        changing = asyncio.create_task(store.change(many_acls(), []))
        await there.until(lambda: 0 < len(store.index) < MANY)
        changing.cancel()
        # The notice of the cancelled change completes the index.
        await there.until(lambda: len(store.index) == MANY)
        assert await store.change([], many_acls()) == {}
        assert len(store.index) == 0


async def test_acls_deleted_in_zookeeper_before_the_session_expired_are_removed() -> None:
    async with scene() as there:
        store, zookeeper = await there.broker(time=HeldThreads())
        changing = asyncio.create_task(store.change(many_acls(), []))
        await there.until(lambda: 0 < len(store.index) < MANY)
        zookeeper.suspend()
        await there.tool.delete(TOPIC)
        there.ensemble.end_session(zookeeper.session)
        zookeeper.resume()
        await asyncio.gather(changing, return_exceptions=True)
        await there.until(lambda: len(store.index) == 0)
