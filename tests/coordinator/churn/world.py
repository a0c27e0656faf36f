"""A group in virtual time, whose members crash, restart, leave and lose connections.

A `Process` behaves like a librdkafka consumer: it sends a heartbeat every 3 s, rejoins as soon as a
response reports a rebalance, uses eager assignment, and keeps its member id after a reconnect. The
result of a run is the share of time in which live processes own partitions.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from heapq import heappop, heappush
from itertools import count
from random import Random
from typing import Any, Protocol

from coordinator.calls import Call, Heartbeat, JoinGroup, LeaveGroup, Leaver, SyncGroup
from coordinator.config import GroupConfig
from coordinator.outcome import JoinReply, Outcome, Reply, SyncReply
from coordinator.shard import GroupShard
from protocol.errors import (
    FENCED_INSTANCE_ID,
    MEMBER_ID_REQUIRED,
    NONE,
    REBALANCE_IN_PROGRESS,
    UNKNOWN_MEMBER_ID,
)
from protocol.now import Now

PARTITIONS = 60
HEARTBEAT_MS = 3_000
NETWORK_MS = 2
POLL_MS = 100
"""The maximum time in ms after which a client notices that it must rejoin, since it polls at this
interval."""
NEVER = 1 << 62
Replies = Sequence[tuple[Any, Reply]]


class Coordinator(Protocol):
    """The interface of a coordinator for one group."""

    def handle(self, call: Call, now_ms: int) -> Replies:
        """Handles a request. Returns the replies that the request releases."""

    def connection_closed(self, connection: Hashable, now_ms: int) -> Replies: ...

    def next_due_ms(self) -> int:
        """Returns the time at which ``expire`` must be called next."""

    def expire(self, now_ms: int) -> Replies:
        """Handles all timers that have expired. Returns the replies that the timers release."""


class Muster:
    """Muster's shard of the group. Its records are replayed immediately, as in the broker."""

    def __init__(self) -> None:
        self.shard = GroupShard(GroupConfig(initial_rebalance_delay_ms=0))
        self._end = 0
        self._take(self.shard.loaded(Now(0, 0)))

    def handle(self, call: Call, now_ms: int) -> Replies:
        return self._take(self.shard.handle(call, Now(now_ms, now_ms)))

    def connection_closed(self, connection: Hashable, now_ms: int) -> Replies:
        return self._take(self.shard.connection_closed(connection, Now(now_ms, now_ms)))

    def next_due_ms(self) -> int:
        due_ms = self.shard.next_deadline()
        return NEVER if due_ms is None else due_ms

    def expire(self, now_ms: int) -> Replies:
        return self._take(self.shard.expire(Now(now_ms, now_ms), 100))

    def _take(self, outcome: Outcome) -> Replies:
        for run in outcome.records:
            self.shard.replay(run, self._end)
            self._end += len(run)
        return outcome.replies


class World:
    """One group, the processes of its members, and the virtual clock."""

    def __init__(self, coordinator: Coordinator, seed: int) -> None:
        self.coordinator = coordinator
        self.seed = seed
        self.now_ms = 0
        self.processes: list[Process] = []
        self.owned_ms = 0
        """The total time in ms in which live processes owned partitions, summed over the
        partitions."""
        self.unknown = 0
        """The number of UNKNOWN_MEMBER_ID errors that live processes received."""
        self._agenda: list[tuple[int, int, Callable[[], None]]] = []
        self._numbers = count()
        self._waiting: dict[int, tuple[Process, int, Call]] = {}
        """Each parked request by its ticket: the process, the number of its connection, and the
        call."""
        self._since_ms = 0

    def process(self, name: str, **settings: Any) -> Process:
        made = Process(self, name, Random(f"{self.seed} {name}"), **settings)
        self.processes.append(made)
        return made

    def at(self, after_ms: float, do: Callable[[], None]) -> None:
        heappush(self._agenda, (self.now_ms + round(after_ms), next(self._numbers), do))

    def run(self, until_ms: int) -> float:
        """Advances the time to ``until_ms``. Returns the share of time in which live processes
        owned partitions."""
        while True:
            due_ms = self.coordinator.next_due_ms()
            next_ms = min(self._agenda[0][0] if self._agenda else NEVER, due_ms)
            if next_ms > until_ms:
                break
            self._advance(max(next_ms, self.now_ms))
            if due_ms <= self.now_ms:
                self._deliver(self.coordinator.expire(self.now_ms))
            else:
                heappop(self._agenda)[2]()
        self._advance(until_ms)
        return self.owned_ms / (PARTITIONS * until_ms)

    def _advance(self, to_ms: int) -> None:
        owned: set[int] = set()
        for process in self.processes:
            if process.lives:
                owned.update(process.owns)
        self.owned_ms += len(owned) * (to_ms - self.now_ms)
        self.now_ms = to_ms

    def send(self, process: Process, make: Callable[[int], Call]) -> None:
        ticket = next(self._numbers)
        call = make(ticket)
        if not isinstance(call, LeaveGroup):
            call = replace(call, connection=(process.name, process.connection))
        self._waiting[ticket] = process, process.connection, call
        self._deliver(self.coordinator.handle(call, self.now_ms))

    def closed(self, process: Process) -> None:
        connection = process.name, process.connection
        process.connection += 1
        self._deliver(self.coordinator.connection_closed(connection, self.now_ms))

    def _deliver(self, replies: Replies) -> None:
        for ticket, reply in replies:
            process, connection, call = self._waiting.pop(ticket)
            self.at(NETWORK_MS, _Hears(process, connection, call, reply))


class _Hears:
    """Delivers a reply to a process. The reply is lost if the connection has closed before."""

    def __init__(self, process: Process, connection: int, call: Call, reply: Reply) -> None:
        self._process = process
        self._connection = connection
        self._call = call
        self._reply = reply

    def __call__(self) -> None:
        if self._process.lives and self._process.connection == self._connection:
            self._process.hear(self._call, self._reply)


class Process:
    """A consumer that behaves like a librdkafka consumer, as the module docstring describes."""

    def __init__(
        self,
        world: World,
        name: str,
        chance: Random,
        instance: str | None = None,
        session_ms: int = 10_000,
        has_ids: bool = True,
    ) -> None:
        """``has_ids`` means that the process uses JoinGroup version 4 or later, in which the
        coordinator assigns a member id before the join."""
        self.world = world
        self.name = name
        self.chance = chance
        self.instance = instance
        self.session_ms = session_ms
        self.has_ids = has_ids
        self.lives = False
        self.is_connected = False
        self.connection = 0
        self.life = 0
        self.member_id = ""
        self.generation = -1
        self.owns: Sequence[int] = ()
        self._given: list[tuple[str, bytes]] = []
        self._again: Callable[[], None] | None = None
        """Sends the unanswered request again. Called after a reconnect."""

    # -- events

    def start(self) -> None:
        self.lives = self.is_connected = True
        self.life += 1
        self.member_id, self.generation, self.owns = "", -1, ()
        life = self.life
        self.world.at(self.chance.uniform(0, HEARTBEAT_MS), lambda: self._beat(life))
        self._join()

    def kill(self) -> None:
        if self.lives:
            self.lives, self.owns, self._again = False, (), None
            self.world.closed(self)

    def stop(self) -> None:
        if self.lives and self.member_id and self.instance is None:
            leaver = Leaver(self.member_id, None, None)
            self.world.send(self, lambda ticket: LeaveGroup(ticket, "g", [leaver]))
        self.kill()

    def cut(self, back_off_ms: float) -> None:
        """Closes the connection. The process reconnects after ``back_off_ms``."""
        if self.lives and self.is_connected:
            self.is_connected = False
            self.world.closed(self)
            life = self.life
            self.world.at(back_off_ms, lambda: self._reconnect(life))

    def _reconnect(self, life: int) -> None:
        if self.lives and self.life == life:
            self.is_connected = True
            if self._again is not None:
                self._again()
            else:
                self._heartbeat()  # the heartbeat became due while the connection was closed

    # -- behavior

    def _beat(self, life: int) -> None:
        if not self.lives or self.life != life:
            return
        self.world.at(HEARTBEAT_MS, lambda: self._beat(life))
        self._heartbeat()

    def _heartbeat(self) -> None:
        if self.is_connected and self._again is None and self.generation >= 0:
            who = ("g", self.generation, self.member_id, self.instance)
            self.world.send(self, lambda ticket: Heartbeat(ticket, *who))

    def _ask(self, again: Callable[[], None], make: Callable[[int], Call]) -> None:
        self._again = again
        if self.is_connected:
            self.world.send(self, make)

    def _join(self) -> None:
        self.owns = ()
        self._ask(
            self._join,
            lambda ticket: JoinGroup(
                ticket,
                "g",
                self.member_id,
                self.instance,
                client_id=self.name,
                client_host="/h",
                session_timeout_ms=self.session_ms,
                rebalance_timeout_ms=300_000,
                protocol_type="consumer",
                protocols=[("range", b"")],
                reason=None,
                member_id_required=self.has_ids and self.instance is None,
                supports_skip_assignment=True,
                fresh_id=str(ticket),
            ),
        )

    def _sync(self) -> None:
        who = ("g", self.generation, self.member_id, self.instance)
        self._ask(self._sync, lambda ticket: SyncGroup(ticket, *who, None, None, self._given))

    def _rejoin_soon(self) -> None:
        life = self.life
        self.owns = ()
        self._again = self._join

        def rejoin() -> None:
            if self.lives and self.life == life and self.is_connected:
                self._join()

        self.world.at(self.chance.uniform(0, POLL_MS), rejoin)

    def hear(self, call: Call, reply: Reply) -> None:
        if isinstance(reply, JoinReply):
            self._again = None
            if reply.error_code == NONE:
                self.member_id, self.generation = reply.member_id, reply.generation_id
                leads = reply.leader == reply.member_id and not reply.skip_assignment
                self._given = shared([each.member_id for each in reply.members]) if leads else []
                self._sync()
            elif reply.error_code == MEMBER_ID_REQUIRED:
                self.member_id = reply.member_id
                self._join()
            else:
                self._failed(reply.error_code)
        elif isinstance(reply, SyncReply):
            self._again = None
            if reply.error_code == NONE:
                self.owns = [int(each) for each in reply.assignment.split()]
            else:
                self._failed(reply.error_code)
        elif isinstance(reply, int) and reply != NONE and self._again is None:
            self._failed(reply)

    def _failed(self, error_code: int) -> None:
        if error_code == UNKNOWN_MEMBER_ID:
            self.world.unknown += 1
            self.member_id = ""
        if error_code == FENCED_INSTANCE_ID:
            return self.kill()  # fatal in every client
        if error_code != REBALANCE_IN_PROGRESS:
            self.generation = -1
        return self._rejoin_soon()


def shared(members: Sequence[str]) -> list[tuple[str, bytes]]:
    """Distributes the partitions among the members as the range assignor does."""
    bounds = [PARTITIONS * i // len(members) for i in range(len(members) + 1)]
    return [
        (name, " ".join(map(str, range(bounds[i], bounds[i + 1]))).encode())
        for i, name in enumerate(sorted(members))
    ]
