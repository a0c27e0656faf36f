"""Makes the shards of a whole simulated broker available to the checkers of the core's simulation.

The shards are those of the real broker, between its handlers and its logs. While a simulation runs,
this module observes each call of a `GroupShard`: the call, the state before it, the outcome, and
the replayed records. The checkers of the core's simulation therefore also check the whole broker.
Each partition of ``__consumer_offsets`` has one checker for all broker processes.
`replies_on_the_wire.py` checks the replies between shard and client.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from broker.cores.hosted_shard import HostedShard, Phase
from coordinator.calls import Call, DeleteGroup
from coordinator.config import GroupConfig
from coordinator.outcome import Outcome
from coordinator.shard import GroupShard
from offsets.own_batches import own_batch
from offsets.partitioner import partition_for
from offsets.record_codec import run_records
from offsets.runs import OwnBatch, Run
from protocol.now import Now
from protocol.records.batch import PLAIN_FORM, assemble_batch
from tests.simulation.checkers import Checkers
from tests.simulation.clients import Member
from tests.simulation.simulated_log import Batch, SimulatedLog
from tests.simulation.whole.disk_log import OFFSETS_TOPIC, LogOnDisk, batches_of

if TYPE_CHECKING:
    from tests.simulation.whole.world import World

LATE_MS = 300
"""The maximum time in ms by which a timer may fire late. It is the sum of two times: the time after
which the clock detects a suspended loop, and the time of one slice."""

FOR_EVER_MS = 10**9


@dataclass
class Opened:
    """A call that a shard is handling."""

    call: Call
    sent_ms: int


class ShardWatch:
    """Lets `Checkers` check the current shard of one partition in the simulation of a whole broker.
    `Checkers` were written for the simulation of a single shard."""

    leapt_ms = 0

    def __init__(self, world: World, partition: int) -> None:
        self.world = world
        self.partition = partition
        self.shard: GroupShard
        self.config: GroupConfig
        self.now = Now(0, 0)
        self.open: dict[Any, Opened] = {}
        self.log = SimulatedLog(flushes=False)
        self.unappended: list[Batch] = []
        self.accepted = 0
        self.checkers = Checkers(self)
        self.touched = False
        self.serves = False
        self.hosted: HostedShard
        self._active_since_ms: int | None = None
        self._ends: dict[bool, LogOnDisk] = {}
        self.look_at_disk_anew()
        self._outcome: Outcome | None = None
        self._call: Call | None = None
        self._to_replay = 0

    @property
    def late_ms(self) -> int:
        """Returns the number of ms by which the shard may miss a deadline.

        The number is unlimited for an inactive shard, and for a shard in its first LATE_MS after it
        became active.
        """
        if self.hosted.phase is not Phase.ACTIVE:
            self._active_since_ms = None
            return FOR_EVER_MS
        if self._active_since_ms is None:
            self._active_since_ms = self.mono_ms
        settling = self.mono_ms - self._active_since_ms < LATE_MS
        return FOR_EVER_MS if settling else LATE_MS

    @property
    def mono_ms(self) -> int:
        return self.now.mono_ms

    @property
    def wall_ms(self) -> int:
        return self.now.wall_ms

    @property
    def clients(self) -> Sequence[Any]:
        """Returns the members of the groups in this shard."""
        return [
            client.logic
            for client in self.world.group_clients
            if isinstance(client.logic, Member)
            and partition_for(client.logic.group_id, self.world.partitions) == self.partition
        ]

    def loaded_shard(self, with_snapshot: bool) -> GroupShard:
        shard = GroupShard(self.config)
        self.log.replay(shard, self.unappended, with_snapshot)
        return shard

    def look_at_disk_anew(self) -> None:
        """Reads the files again from their start, because a new process may have changed them."""
        files, partition = self.world.files, self.partition
        self._ends = {
            synced: LogOnDisk(files, OFFSETS_TOPIC, partition, synced=synced)
            for synced in (False, True)
        }

    def stable_end(self) -> int:
        """Returns the end offset of the records that survive the faults of this simulation: of all
        written records, or only of the fsynced records if `World.flushes` is True."""
        return self.end(synced=self.world.flushes)

    def end(self, *, synced: bool) -> int:
        """Returns the offset after the last written record, or after the last fsynced record if
        ``synced``."""
        return self._ends[synced].end()

    # -- the life of a shard

    def begin(self, hosted: HostedShard, shard: GroupShard, now: Now) -> None:
        """Starts to watch ``shard``, which has read its log but does not yet accept calls."""
        self.hosted, self.shard, self.now, self.serves = hosted, shard, now, False
        self._active_since_ms = None
        self.config = shard._state.config
        self.open.clear()
        self.look_at_disk_anew()
        self._outcome, self._to_replay = None, 0
        self.log = SimulatedLog(flushes=False)
        self.log.batches = [
            Batch(*each)
            for each in batches_of(self.world.files, OFFSETS_TOPIC, self.partition, synced=False)
        ]
        if self.log.batches:
            self.log.end = self.log.batches[-1].end_offset
        self.accepted = self.log.end
        self.checkers.reloaded()
        self.touched = True

    # -- calls and outcomes

    def asked(self, call: Call, now: Now) -> None:
        self.now = now
        self.touched = True
        self.open[call.ticket] = Opened(call, now.mono_ms)
        self.world.happened[type(call).__name__] += 1
        self.checkers.before_call(call)

    def gave(self, outcome: Outcome, call: Call | None = None) -> None:
        """Stores an outcome of the shard. The outcome is checked when all its records have been
        replayed."""
        assert self._outcome is None, "an outcome whose records are not replayed"
        self.touched = True
        self._outcome, self._call = outcome, call
        self._to_replay = sum(map(len, outcome.records))
        if not self._to_replay:
            self._take()

    def replayed(self, run: Run | OwnBatch, base_offset: int, real: Callable[..., None]) -> None:
        """Checks a run and lets the shard replay it. Also passes the encoded run to a second
        decoder, which is independent of the shard."""
        assert base_offset == self.accepted, f"{run} at {base_offset}, behind {self.accepted}"
        self.checkers.before_replay(run)
        real(self.shard, run, base_offset)
        count = len(run)
        wall_ms = self.now.wall_ms
        if isinstance(run, OwnBatch):
            data, _ = own_batch(run, PLAIN_FORM, base_offset, 0, wall_ms)
        else:
            data = assemble_batch(run_records(run, 0), count, base_offset, wall_ms, wall_ms)
        self.accepted += count
        self.log.append([Batch(base_offset, self.accepted, data)])
        self.checkers.accepted(data)
        self._to_replay -= count
        assert self._to_replay >= 0, f"{run} is of no outcome"
        if not self._to_replay:
            self._take()

    def _take(self) -> None:
        outcome, call = self._outcome, self._call
        assert outcome is not None
        self._outcome = self._call = None
        for ticket, reply in outcome.replies:
            opened = self.open.pop(ticket, None)
            assert opened is not None, f"{ticket} was answered twice, or never given"
            self.checkers.replied(opened.call, reply)
            self.world.replies.made(ticket, opened.call, reply, self)
        self.checkers.told(outcome.events)
        self.world.told(outcome.events)
        if call is not None:
            self.checkers.after_call(call, outcome)

    def check(self) -> None:
        """Checks all invariants, if an event has occurred since the last check."""
        if self.touched and self.serves:
            self.touched = False
            self.checkers.check_all()


@contextmanager
def watching(world: World) -> Iterator[None]:
    """Watches each active shard in ``world`` while the block runs."""
    names = (
        "handle", "expire", "connection_closed", "topics_deleted", "sweep", "unload", "replay",
        "replay_all", "loaded",
    )  # fmt: skip
    real = {name: getattr(GroupShard, name) for name in names}
    guarded = world.guarded

    def handle(self: GroupShard, call: Call, now: Now) -> Outcome:
        watch = world.watch_of(self)
        if watch is not None:
            guarded(watch.asked, call, now)
        outcome: Outcome = real["handle"](self, call, now)
        if watch is not None:
            guarded(watch.gave, outcome, call)
        return outcome

    def expire(self: GroupShard, now: Now, budget: int) -> Outcome:
        watch = world.watch_of(self)
        outcome: Outcome = real["expire"](self, now, budget)
        if watch is not None:
            watch.now = now
            guarded(watch.checkers.expiring, outcome)
            guarded(watch.gave, outcome)
        return outcome

    def connection_closed(self: GroupShard, connection: Any, now: Now) -> Outcome:
        watch = world.watch_of(self)
        if watch is not None:
            watch.now = now
        outcome: Outcome = real["connection_closed"](self, connection, now)
        if watch is not None:
            guarded(watch.gave, outcome)
        return outcome

    def topics_deleted(
        self: GroupShard, topics: Any, now: Now, ticket: Any | None = None
    ) -> Outcome:
        watch = world.watch_of(self) or world.begin_watch(self, now)
        if watch is not None:
            watch.now = now
            if ticket is not None:
                watch.open[ticket] = Opened(DeleteGroup(ticket, ""), now.mono_ms)
        outcome: Outcome = real["topics_deleted"](self, topics, now, ticket)
        if watch is not None:
            guarded(watch.gave, outcome)
        return outcome

    def sweep(self: GroupShard, now: Now, budget: int) -> Outcome:
        watch = world.watch_of(self)
        outcome: Outcome = real["sweep"](self, now, budget)
        if watch is not None:
            watch.now = now
            guarded(watch.gave, outcome)
        return outcome

    def unload(self: GroupShard, error_code: int) -> Outcome:
        watch = world.watch_of(self)
        outcome: Outcome = real["unload"](self, error_code)
        if watch is not None:
            guarded(watch.gave, outcome)
            world.forget_shard(self)
        return outcome

    def loaded(self: GroupShard, now: Now) -> Outcome:
        watch = world.watch_of(self) or world.begin_watch(self, now)
        outcome: Outcome = real["loaded"](self, now)
        if watch is not None:
            watch.serves = True
            guarded(watch.gave, outcome)
        return outcome

    def replay(self: GroupShard, run: Run, base_offset: int) -> None:
        watch = world.watch_of(self)
        if watch is None:
            real["replay"](self, run, base_offset)
        else:
            guarded(watch.replayed, run, base_offset, real["replay"])

    def replay_all(self: GroupShard, runs: Sequence[Run], base_offset: int) -> int:
        """Replays the runs one by one. Like `GroupShard.replay_all`, uses compiled code for the
        runs that this code supports."""
        watch = world.watch_of(self)
        if watch is None:
            after: int = real["replay_all"](self, runs, base_offset)
            return after

        def one(shard: GroupShard, run: Run, offset: int) -> None:
            if shard._state.cache.replay_plain((run,), 0, offset)[0] == 0:
                real["replay"](shard, run, offset)

        for run in runs:
            guarded(watch.replayed, run, base_offset, one)
            base_offset += len(run)
        return base_offset

    wrapped: dict[str, Callable[..., Any]] = {
        "handle": handle,
        "expire": expire,
        "connection_closed": connection_closed,
        "topics_deleted": topics_deleted,
        "sweep": sweep,
        "unload": unload,
        "loaded": loaded,
        "replay": replay,
        "replay_all": replay_all,
    }
    for name, method in wrapped.items():
        setattr(GroupShard, name, method)
    try:
        yield
    finally:
        for name, method in real.items():
            setattr(GroupShard, name, method)
