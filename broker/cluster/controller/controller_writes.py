"""What the controller writes: each write fenced by its epoch, each answer looked at.

A write is a multi with a check of ``/controller_epoch`` at the version that this controller got at
its election (KAFKA-6082): whoever lost it writes nothing more. After a lost connection a write may
have been done although the answer is a refusal; then what is there is compared with what was
wanted.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from broker.cluster.zookeeper.zookeeper import (
    ANY_VERSION,
    BadVersion,
    Check,
    Closed,
    Create,
    Delete,
    Done,
    MultiFailed,
    NodeExists,
    NoNode,
    NotEmpty,
    Operation,
    SessionExpired,
    Set,
    Stat,
    ZooKeeper,
    ZooKeeperError,
)
from broker.topics.registry import uuid_text
from controller.facts import Result, WriteResult
from controller.outcome import (
    CreateState,
    DeleteNodes,
    DeleteTopic,
    RewriteTopic,
    SetProducerIds,
    SetReassignments,
    SetState,
    Write,
)
from controller.values import LeaderAndIsr
from protocol.znodes import admin, cluster, configs, topics

_RESULTS: dict[type[ZooKeeperError], Result] = {
    BadVersion: Result.BAD_VERSION,
    NodeExists: Result.NODE_EXISTS,
    NoNode: Result.NO_NODE,
}
_DELETIONS_MAX = 5
"""How often a tree is deleted in which others create nodes meanwhile."""


class _Fenced(Exception):
    """``/controller_epoch`` has another version."""


class ControllerWrites:
    """The writes of one election; ``epoch_version`` is the version of its ``/controller_epoch``."""

    def __init__(self, zookeeper: ZooKeeper, epoch_version: int, topic_version: int) -> None:
        """``topic_version``: in which version topics' nodes are written."""
        self._zookeeper = zookeeper
        self._fence = Check(cluster.CONTROLLER_EPOCH, epoch_version)
        self._topic_version = topic_version

    async def do(self, write: Write) -> WriteResult:
        """Does a write, and says what came of it."""
        try:
            version = await self._do(write)
        except _Fenced:
            return WriteResult(write.ticket, Result.FENCED)
        except (SessionExpired, Closed):
            return WriteResult(write.ticket, Result.FAILED)
        except ZooKeeperError as error:
            return WriteResult(write.ticket, _RESULTS.get(type(error), Result.FAILED))
        return WriteResult(write.ticket, Result.OK, version)

    async def _do(self, write: Write) -> int:
        match write:
            case CreateState():
                return await self._create_state(write)
            case SetState():
                return await self._set_state(write)
            case RewriteTopic():
                return await self._rewrite(write)
            case DeleteTopic():
                await self._delete_topic(write.name)
            case DeleteNodes():
                await asyncio.gather(*[self._delete(path) for path in write.paths])
            case SetReassignments():
                await self._set_reassignments(write)
            case SetProducerIds():
                return await self._set_producer_ids(write)
        return ANY_VERSION

    async def _fenced(self, *operations: Operation) -> list[Done]:
        """Does operations behind the fence. Raises _Fenced, or the error of the one that failed."""
        try:
            return (await self._zookeeper.multi([self._fence, *operations]))[1:]
        except MultiFailed as failed:
            if failed.index == 0:
                raise _Fenced from failed
            raise failed.error from None

    # -- states

    async def _create_state(self, write: CreateState) -> int:
        topic, partition = write.topic, write.partition
        parent = Create(topics.partition_path(topic, partition), None)
        path = topics.state_path(topic, partition)
        state = Create(path, _state(write.state))
        try:
            await self._fenced(parent, state)
        except NoNode:
            with suppress(NodeExists):
                await self._fenced(Create(topics.partitions_path(topic), None))
            with suppress(NodeExists):
                await self._fenced(parent)
            await self._alone(state, path)
        except NodeExists:
            await self._alone(state, path)
        return 0

    async def _alone(self, state: Create, path: str) -> None:
        """Creates a state whose parent is there."""
        try:
            await self._fenced(state)
        except NodeExists as error:
            if not error.unsure or not await self._is(path, state.data):
                raise

    async def _set_state(self, write: SetState) -> int:
        path = topics.state_path(write.topic, write.partition)
        data = _state(write.state)
        return await self._set(Set(path, data, write.state.partition_epoch))

    async def _set(self, wanted: Set) -> int:
        """Sets a node at its version; the version that it has then."""
        try:
            (stat,) = await self._fenced(wanted)
        except BadVersion as error:
            found, there = await self._zookeeper.get(wanted.path)
            ours = error.unsure and found == wanted.data and there.version == wanted.version + 1
            if not ours:
                raise
            return there.version
        assert isinstance(stat, Stat)
        return stat.version

    async def _is(self, path: str, data: bytes | None) -> bool:
        found, _ = await self._zookeeper.get(path)
        return found == data

    # -- topics

    async def _rewrite(self, write: RewriteTopic) -> int:
        partitions = write.partitions
        unknown = write.unknown
        node = topics.TopicNode(
            {each: assigned.replicas for each, assigned in partitions.items()},
            None if write.topic_id is None else uuid_text(write.topic_id),
            {each: assigned.adding for each, assigned in partitions.items() if assigned.adding},
            {each: assigned.removing for each, assigned in partitions.items() if assigned.removing},
            unknown if isinstance(unknown, dict) else {},
        )
        data = topics.encode_topic(node, self._topic_version)
        return await self._set(Set(topics.topic_path(write.name), data, write.znode_version))

    async def _delete_topic(self, name: str) -> None:
        await self._delete_tree(topics.topic_path(name))
        await self._delete(configs.path(configs.TOPICS, name))
        await self._delete(admin.delete_path(name))

    async def _delete_tree(self, path: str) -> None:
        for attempt in range(_DELETIONS_MAX):
            try:
                names = await self._zookeeper.children(path)
                await asyncio.gather(*[self._delete_tree(f"{path}/{name}") for name in names])
                await self._fenced(Delete(path))
            except NoNode:
                return
            except NotEmpty:
                if attempt == _DELETIONS_MAX - 1:
                    raise
            else:
                return

    async def _delete(self, path: str) -> None:
        with suppress(NoNode):
            await self._fenced(Delete(path))

    # -- the others

    async def _set_reassignments(self, write: SetReassignments) -> None:
        if not write.targets:
            await self._delete(admin.REASSIGN)
            return
        await self._fenced(Set(admin.REASSIGN, admin.encode_reassignments(write.targets)))

    async def _set_producer_ids(self, write: SetProducerIds) -> int:
        block = cluster.ProducerIdBlock(write.broker_id, write.block_start, write.block_end)
        data = cluster.encode_producer_ids(block)
        if write.znode_version >= 0:
            return await self._set(Set(cluster.PRODUCER_IDS, data, write.znode_version))
        create = Create(cluster.PRODUCER_IDS, data)
        await self._alone(create, create.path)
        return 0


def _state(state: LeaderAndIsr) -> bytes:
    return topics.encode_state(
        topics.StateNode(
            state.leader, state.leader_epoch, state.isr, state.controller_epoch, state.recovering
        )
    )
