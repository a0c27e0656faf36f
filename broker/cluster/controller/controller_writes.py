"""The controller's writes to ZooKeeper. Each write is fenced by the controller's epoch, and its
result is checked.

A write is a ZooKeeper multi (a transaction) that also checks the version of ``/controller_epoch``.
It must be the version from this controller's election (KAFKA-6082), so an old controller can't
write. After a lost connection, a write may have been applied although its result is an error; then
the node's content is compared with the wanted content. States of partitions that are written at the
same time share a multi. If ZooKeeper rejects the multi, each state is written by its own multi.

The registrations of brokers also fence changed states. Each Muster that registers sets
``/brokers/ids``, and a state that was decided before the registration is not written. Without this
fence, a leader that lost power and registers again could remain leader although its log lost its
last records. That happens if the controller dies before it sees the registration, because the next
controller assumes that the state was decided after the registration.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
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
from protocol.znodes import admin, brokers, cluster, configs, topics

_RESULTS: dict[type[ZooKeeperError], Result] = {
    BadVersion: Result.BAD_VERSION,
    NodeExists: Result.NODE_EXISTS,
    NoNode: Result.NO_NODE,
}
STATES_AT_ONCE = 128
"""The maximum number of partition states in one ZooKeeper multi. Such a multi has 40 kB and takes a
millisecond of the event loop's time."""
StateWrite = CreateState | SetState
_DELETIONS_MAX = 5
"""The maximum number of attempts to delete a tree of nodes while other clients create nodes in it.
"""


class _Fenced(Exception):
    """Another broker was elected: ``/controller_epoch`` no longer has the version of this term."""


class _Outdated(Exception):
    """A broker has registered since the write was decided: ``/brokers/ids`` has another version."""

    def __init__(self, unsure: bool) -> None:
        super().__init__()
        self.unsure = unsure
        """True if an earlier attempt of the same write may have been applied, as in
        `ZooKeeperError.unsure`."""


class ControllerWrites:
    """Writes to ZooKeeper during one term of the controller. ``epoch_version`` is the version of
    the znode ``/controller_epoch`` in this term."""

    def __init__(self, zookeeper: ZooKeeper, epoch_version: int, topic_version: int) -> None:
        """``topic_version`` is the version of the format in which nodes of topics are written."""
        self._zookeeper = zookeeper
        self.fence = Check(cluster.CONTROLLER_EPOCH, epoch_version)
        """The check that is part of each multi request. The request fails if another broker has
        become the controller."""
        self._topic_version = topic_version

    async def do(
        self, write: Write, registrations: int = ANY_VERSION, *, unsure: bool = False
    ) -> WriteResult:
        """Executes a write and returns its result.

        ``registrations`` is the version of ``/brokers/ids`` that the controller knew when it
        decided the write; ANY_VERSION skips the check. ``unsure`` is True if an earlier attempt may
        have been applied.
        """
        try:
            version = await self._do(write, registrations, unsure)
        except _Fenced:
            return WriteResult(write.ticket, Result.FENCED)
        except _Outdated:
            return WriteResult(write.ticket, Result.OUTDATED)
        except (SessionExpired, Closed):
            return WriteResult(write.ticket, Result.FAILED)
        except ZooKeeperError as error:
            return WriteResult(write.ticket, _RESULTS.get(type(error), Result.FAILED))
        return WriteResult(write.ticket, Result.OK, version)

    async def do_states(
        self, writes: Sequence[StateWrite], registrations: int = ANY_VERSION
    ) -> list[WriteResult]:
        """Writes the states of at most `STATES_AT_ONCE` partitions. Returns the result of each
        write."""
        if len(writes) == 1:
            return [await self.do(writes[0], registrations)]
        try:
            versions = await self._states(writes, registrations)
        except _Fenced:
            return [WriteResult(write.ticket, Result.FENCED) for write in writes]
        except (SessionExpired, Closed):
            return [WriteResult(write.ticket, Result.FAILED) for write in writes]
        except (ZooKeeperError, _Outdated) as error:
            if isinstance(error, _Outdated) and not error.unsure:
                return [WriteResult(write.ticket, Result.OUTDATED) for write in writes]
            return await asyncio.gather(
                *[self.do(write, registrations, unsure=error.unsure) for write in writes]
            )
        return [
            WriteResult(write.ticket, Result.OK, version)
            for write, version in zip(writes, versions, strict=True)
        ]

    async def _states(self, writes: Sequence[StateWrite], registrations: int) -> list[int]:
        """Writes all states or none, by one multi. Returns the new versions of their nodes."""
        changes = any(isinstance(write, SetState) for write in writes)
        seen = registrations if changes else ANY_VERSION
        operations: list[Operation] = []
        last: list[int] = []
        for write in writes:
            if isinstance(write, CreateState):
                operations += _created(write)
            else:
                operations.append(_set(write))
            last.append(len(operations) - 1)
        try:
            done = await self._fenced(*operations, registrations=seen)
        except NoNode as error:
            if error.unsure:
                raise
            new = {write.topic for write in writes if isinstance(write, CreateState)}
            for topic in new:
                with suppress(NodeExists):
                    await self._fenced(Create(topics.partitions_path(topic), None))
            done = await self._fenced(*operations, registrations=seen)
        stats = [done[index] for index in last]
        return [stat.version if isinstance(stat, Stat) else 0 for stat in stats]

    async def _do(self, write: Write, registrations: int, unsure: bool) -> int:
        match write:
            case CreateState():
                return await self._create_state(write, unsure)
            case SetState():
                return await self._set_at(_set(write), registrations, unsure=unsure)
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

    async def _fenced(self, *operations: Operation, registrations: int = ANY_VERSION) -> list[Done]:
        """Executes the operations in one ZooKeeper multi, which fails if this controller's epoch is
        no longer the current epoch. With ``registrations``, the multi also fails if
        ``/brokers/ids`` has another version.

        Raises _Fenced, _Outdated, or the error of the operation that failed.
        """
        fences = [self.fence]
        if registrations != ANY_VERSION:
            fences.append(Check(brokers.IDS, registrations))
        try:
            return (await self._zookeeper.multi([*fences, *operations]))[len(fences) :]
        except MultiFailed as failed:
            if failed.index == 0:
                raise _Fenced from failed
            if failed.index < len(fences):
                raise _Outdated(failed.error.unsure) from failed
            raise failed.error from None

    # -- states

    async def _create_state(self, write: CreateState, unsure: bool) -> int:
        parent, state = _created(write)
        try:
            await self._fenced(parent, state)
        except NoNode:
            with suppress(NodeExists):
                await self._fenced(Create(topics.partitions_path(write.topic), None))
            with suppress(NodeExists):
                await self._fenced(parent)
            await self._alone(state, unsure)
        except NodeExists:
            await self._alone(state, unsure)
        return 0

    async def _alone(self, state: Create, unsure: bool = False) -> None:
        """Creates the state node of a partition. The parent node must exist. With ``unsure``, an
        existing node with the same data counts as success, because an earlier attempt may have
        created it."""
        try:
            await self._fenced(state)
        except NodeExists as error:
            if not (unsure or error.unsure) or not await self._is(state.path, state.data):
                raise

    async def _set_at(
        self, wanted: Set, registrations: int = ANY_VERSION, *, unsure: bool = False
    ) -> int:
        """Sets a node if it has the expected version. Returns the node's new version."""
        try:
            (stat,) = await self._fenced(wanted, registrations=registrations)
        except (BadVersion, _Outdated) as error:
            found, there = await self._zookeeper.get(wanted.path)
            may_be_ours = (unsure or error.unsure) and there.version == wanted.version + 1
            if not may_be_ours or found != wanted.data:
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
        return await self._set_at(Set(topics.topic_path(write.name), data, write.znode_version))

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

    # -- other writes

    async def _set_reassignments(self, write: SetReassignments) -> None:
        if not write.targets:
            await self._delete(admin.REASSIGN)
            return
        await self._fenced(Set(admin.REASSIGN, admin.encode_reassignments(write.targets)))

    async def _set_producer_ids(self, write: SetProducerIds) -> int:
        block = cluster.ProducerIdBlock(write.broker_id, write.block_start, write.block_end)
        data = cluster.encode_producer_ids(block)
        if write.znode_version >= 0:
            return await self._set_at(Set(cluster.PRODUCER_IDS, data, write.znode_version))
        create = Create(cluster.PRODUCER_IDS, data)
        await self._alone(create)
        return 0


def _created(write: CreateState) -> tuple[Create, Create]:
    """Returns the operations that create a partition's node and its state node."""
    topic, partition = write.topic, write.partition
    parent = Create(topics.partition_path(topic, partition), None)
    return parent, Create(topics.state_path(topic, partition), _state(write.state))


def _set(write: SetState) -> Set:
    path = topics.state_path(write.topic, write.partition)
    return Set(path, _state(write.state), write.state.partition_epoch)


def _state(state: LeaderAndIsr) -> bytes:
    return topics.encode_state(
        topics.StateNode(
            state.leader, state.leader_epoch, state.isr, state.controller_epoch, state.recovering
        )
    )
