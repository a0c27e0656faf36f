"""Tests delegation tokens in ZooKeeper: tokens that Kafka wrote are valid, and every broker applies
changes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from broker.authentication.tokens import Tokens
from broker.cluster.zookeeper.zookeeper import ensure_path
from broker.cluster_stores import ClusterTokens
from broker.config.config import Config
from broker.loop.internal_errors import InternalErrors
from broker.test_mode.registry.ensemble import Ensemble
from broker.test_mode.registry.memory_zookeeper import MemoryZooKeeper
from protocol.errors import (
    DELEGATION_TOKEN_EXPIRED,
    DELEGATION_TOKEN_NOT_FOUND,
    UNKNOWN_SERVER_ERROR,
)
from protocol.znodes import tokens as nodes
from security.credentials import ScramMechanism
from security.principal import user
from security.tokens import Token
from tests.broker.mock_time import MockTime

DATA = Path(__file__).resolve().parents[3] / "data" / "znodes" / "security-kafka-3.9.2.json"
ALICE, BOB = user("alice"), user("bob")
HOUR_MS = 3_600_000
SHA_256 = ScramMechanism.SHA_256
CONFIG = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms": "SCRAM-SHA-256",
    "delegation.token.secret.key": "a key of the tests",
}


class Scene:
    def __init__(self) -> None:
        self.time = MockTime()
        self.ensemble = Ensemble()
        self.ensemble.now_ms = self.time.wall_ms
        self.tool = MemoryZooKeeper(self.ensemble)
        self.errors = InternalErrors()
        self.stores: list[ClusterTokens] = []

    async def broker(self) -> tuple[Tokens, MemoryZooKeeper]:
        zookeeper = MemoryZooKeeper(self.ensemble)
        store = ClusterTokens(
            zookeeper,
            Config(CONFIG),
            self.time,
            lambda work, name: asyncio.get_running_loop().create_task(work, name=name),
            self.errors,
        )
        self.stores.append(store)
        await store.nodes.open()
        return store.tokens, zookeeper

    async def put(self, path: str, data: bytes) -> None:
        await ensure_path(self.tool, path.rpartition("/")[0])
        await self.tool.create(path, data)

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(120):
            while not condition():
                await asyncio.sleep(0.001)


@asynccontextmanager
async def scene() -> AsyncIterator[Scene]:
    async with asyncio.timeout(120):
        there = Scene()
        yield there
        for store in there.stores:
            store.nodes.stop()
        assert not there.errors.counts.total()


async def created(tokens: Tokens, lifetime_ms: int = -1) -> Token:
    made = await tokens.create(ALICE, ALICE, (BOB,), lifetime_ms)
    assert isinstance(made, Token)
    return made


async def test_token_written_by_kafka_is_valid() -> None:
    recorded = json.loads(DATA.read_text())
    token_id = recorded["token_id"]
    text = recorded["nodes"][nodes.path(token_id)]
    async with scene() as there:
        await there.put(nodes.path(token_id), text.encode())
        there.time.wall_ms = json.loads(text)["issueTimestamp"]
        tokens, _ = await there.broker()
        [token] = tokens.all()
        assert (token.owner, token.requester, token.renewers) == (ALICE, ALICE, (BOB,))
        found = tokens.found(SHA_256, token_id)
        assert found is not None
        assert (found.owner, found.expires_ms) == ("alice", token.expires_ms)
        assert tokens.found(ScramMechanism.SHA_512, token_id) is None, "nobody is offered it"


async def test_token_changes_on_one_broker_take_effect_on_the_other_broker() -> None:
    async with scene() as there:
        one, _ = await there.broker()
        other, _ = await there.broker()
        made = await created(one)
        await there.until(lambda: other.all() == [made])
        assert other.found(SHA_256, made.token_id) == one.found(SHA_256, made.token_id)
        assert json.loads(there.ensemble.nodes[nodes.path(made.token_id)].data)["version"] == 3
        there.time.move(60_000)
        renewed = await other.renew(other.hmac_of(made), BOB, -1)
        assert isinstance(renewed, Token)
        assert renewed.expires_ms == made.expires_ms + 60_000
        await there.until(lambda: one.all() == [renewed])
        assert isinstance(await one.expire(one.hmac_of(made), ALICE, -1), Token)
        await there.until(lambda: not other.all())
        assert nodes.path(made.token_id) not in there.ensemble.nodes
        notices = await there.tool.children(nodes.CHANGES)
        assert len(notices) == 3
        assert there.ensemble.nodes[f"{nodes.CHANGES}/{notices[0]}"].data.decode() == made.token_id


async def test_removal_of_expired_tokens_keeps_a_token_that_another_broker_renewed() -> None:
    async with scene() as there:
        one, zookeeper = await there.broker()
        made, short = await created(one), await created(one, HOUR_MS)
        there.stores[0].nodes.stop()  # The first broker gets no more notices.
        other, _ = await there.broker()
        there.time.move(made.expires_ms - there.time.wall_ms - 1)
        assert isinstance(await other.renew(other.hmac_of(made), ALICE, -1), Token)
        there.time.move(1)
        await one.sweep()
        assert [each.token_id for each in one.all()] == [made.token_id]
        assert await zookeeper.exists(nodes.path(short.token_id)) is None
        await there.until(lambda: [each.token_id for each in other.all()] == [made.token_id])


async def test_deleted_delegation_token_cannot_be_renewed() -> None:
    async with scene() as there:
        one, _ = await there.broker()
        made = await created(one)
        there.stores[0].nodes.stop()
        await there.tool.delete(nodes.path(made.token_id))
        assert await one.renew(one.hmac_of(made), ALICE, -1) == DELEGATION_TOKEN_NOT_FOUND
        assert one.all() == []
        assert await there.tool.exists(nodes.path(made.token_id)) is None


@pytest.mark.parametrize("period_ms", [-1, 0, 1000])
async def test_acknowledged_token_expiry_is_not_undone_by_a_concurrent_renewal(
    period_ms: int,
) -> None:
    """The owner expires a token on one broker, while a renewer renews it on another broker."""
    async with scene() as there:
        one, _ = await there.broker()
        made = await created(one)
        other, _ = await there.broker()
        store, read = there.stores[1], there.stores[1].read
        ended: list[Token | int] = []

        async def read_and_be_slow(token_id: str) -> Token | None:
            token = await read(token_id)
            if not ended:
                ended.append(await one.expire(one.hmac_of(made), ALICE, period_ms))
            return token

        store.read = read_and_be_slow  # type: ignore[method-assign]
        renewed = await other.renew(other.hmac_of(made), BOB, HOUR_MS)

        assert isinstance(ended[0], Token)
        if period_ms == 1000:  # The renewer renewed the token in time, after this expiry was set.
            assert isinstance(renewed, Token)
            await there.until(lambda: one.all() == other.all() == [renewed])
            return
        assert renewed in (DELEGATION_TOKEN_NOT_FOUND, DELEGATION_TOKEN_EXPIRED)
        await there.until(
            lambda: not any(each.found(SHA_256, made.token_id) for each in (one, other))
        )


async def test_repeated_write_of_a_token_succeeds_when_the_token_is_stored() -> None:
    async with scene() as there:
        one, zookeeper = await there.broker()
        made = await created(one)
        renewed = made._replace(expires_ms=made.expires_ms + 1)
        put = there.stores[0].nodes.put
        assert await put(renewed, made)
        assert await put(renewed, made), "it is what the node has"
        assert not await put(made._replace(expires_ms=7), made)
        assert await zookeeper.exists(nodes.path(made.token_id)) is not None


async def test_all_tokens_are_read_again_after_a_reconnect() -> None:
    async with scene() as there:
        tokens, zookeeper = await there.broker()
        gone, kept = await created(tokens), await created(tokens)
        zookeeper.suspend()
        await there.tool.delete(nodes.path(gone.token_id))
        zookeeper.resume()
        await there.until(lambda: tokens.all() == [kept])


async def test_invalid_token_node_is_ignored() -> None:
    async with scene() as there:
        await there.put(nodes.path("bad"), b"{")
        one, _ = await there.broker()
        made = await created(one)
        data = there.ensemble.nodes[nodes.path(made.token_id)].data
        with capture_logs() as lines:
            await there.put(nodes.path("stolen"), data)
            other, _ = await there.broker()
        assert [each.token_id for each in other.all()] == [made.token_id]
        assert len([line for line in lines if "can't be read" in line["event"]]) == 2
        await there.tool.set(nodes.path(made.token_id), b"{")
        proof = one.hmac_of(made)
        assert await one.renew(proof, ALICE, -1) == UNKNOWN_SERVER_ERROR
