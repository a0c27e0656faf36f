"""The simulation of the group core: one shard with its log, two clocks, clients, and all kinds of
faults.

The simulation runs the core as the runtime does. The records of a call are encoded and replayed at
once, a turn ends with an append, and a reply is sent when the records on which it depends are
appended. The simulation also crashes, loses power, fails appends, delays flushes, cleans the log,
takes snapshots, loses replies and connections, and changes the clocks. One seed determines all
events, so that a failure can be repeated.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import accumulate
from random import Random
from typing import Any

from coordinator.calls import Call, ConsumerHeartbeat, Heartbeat, JoinGroup, SyncGroup
from coordinator.classic.sweeps import EVERY_LOG_OFFSET
from coordinator.config import GroupConfig
from coordinator.outcome import Outcome
from coordinator.refusal import refusal
from coordinator.shard import GroupShard
from offsets.own_batches import own_batch
from offsets.record_codec import run_records
from offsets.runs import OwnBatch, Run
from protocol.errors import COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR
from protocol.now import Now
from protocol.records.batch import PLAIN_FORM, assemble_batch
from tests.simulation.checkers import Checkers
from tests.simulation.clients import GROUPS, TOPICS, Admin, Member, Transactor
from tests.simulation.requests import Client, Held, Request
from tests.simulation.simulated_log import Batch, SimulatedLog


class World:
    """The simulation of one shard. ``step`` causes one event and checks its effect."""

    late_ms = 0
    """The time in ms by which a timer may be late. In this simulation timers are never late."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.rng = Random(seed)
        self.config = self.choose_config(self.rng)
        self.mono_ms = 1_000
        self.wall_ms = 1_700_000_000_000
        self.leapt_ms = 0
        """The total time in ms in which the process was suspended. A timer that expires in this
        time may be handled late."""
        self.log = SimulatedLog(flushes=self.rng.random() < 0.4)
        self.unappended: list[Batch] = []
        self.accepted = 0
        """The log offset after the last record that the shard has replayed."""
        self.held: list[Held] = []
        self.open: dict[int, Request] = {}
        """Requests that the shard has not answered, by ticket."""
        self.last_ticket = 0
        self.connections: Counter[str] = Counter()
        """The number of the current connection of each client, counted from 0."""
        self.happened: Counter[str] = Counter()
        self.clients = self.make_clients(self.rng)
        self.happenings = self.choose_happenings(self.rng)
        self._weights = list(accumulate(weight for _, weight in self.happenings))
        self.checkers = self.make_checkers()
        self.shard = self.loaded_shard(with_snapshot=False)
        self._take(self.shard.loaded(self.now))

    def choose_config(self, rng: Random) -> GroupConfig:
        return GroupConfig(
            initial_rebalance_delay_ms=rng.choice([0, 300, 3_000]),
            max_size=rng.choice([2**31 - 1, 2**31 - 1, 3]),
            new_member_join_timeout_ms=rng.choice([20_000, 300_000]),
            offset_metadata_max_bytes=50,
            offsets_retention_ms=rng.choice([20_000, 10**9]),
            offsets_retention_check_interval_ms=7_000,
            max_record_bytes=rng.choice([1_048_588, 1_048_588, 900]),
        )

    def make_clients(self, rng: Random) -> list[Any]:
        clients: list[Client] = [
            Admin("admin", Random(rng.random())),
            Admin("simple consumer", Random(rng.random())),
            *(Transactor(f"producer {each}", each, Random(rng.random())) for each in (7, 8)),
        ]
        for group_id in GROUPS:
            for i in range(3):
                clients.append(Member(f"{group_id}-{i}", group_id, Random(rng.random())))
            for i in range(2):
                instance_id = f"{group_id}-static-{i}"
                clients.append(Member(instance_id, group_id, Random(rng.random()), instance_id))
        return clients

    def make_checkers(self) -> Checkers:
        return Checkers(self)

    def choose_happenings(self, rng: Random) -> list[tuple[Callable[[], None], int]]:
        return [
            (self.clients_act, 300),
            (self.end_turn, 120),
            (self.disk_flushes, rng.choice([15, 90]) if self.log.flushes else 0),
            (self.time_passes, 100),
            (self.client_repeats, 8),
            (self.client_disconnects, 5),
            (self.client_restarts, 3),
            (self.time_leaps, 2),
            (self.wall_clock_jumps, 2),
            (self.topic_is_deleted, 2),
            (self.append_fails, 2),
            (self.crash, 3),
            (self.log_is_cleaned, 8),
            (self.snapshot_is_taken, 5),
        ]

    @property
    def now(self) -> Now:
        return Now(self.mono_ms, self.wall_ms)

    # ------------------------------------------------------------------------------- one step

    def step(self) -> None:
        """Causes one random event, does all due work, and checks the invariants."""
        [(happening, _)] = self.rng.choices(self.happenings, cum_weights=self._weights)
        self.happened[happening.__name__] += 1
        happening()
        self.do_what_is_due()
        self.checkers.check_all()

    def do_what_is_due(self) -> None:
        """Expires sessions and offsets in slices, until no more work is due."""
        for _ in range(10_000):
            due_ms = self.shard.next_deadline()
            if due_ms is None or due_ms > self.mono_ms:
                return
            outcome = self.shard.expire(self.now, self.rng.choice([1, 2, 100]))
            self.checkers.expiring(outcome)
            self._take(outcome)
        raise AssertionError("what is due never ends")

    def clients_act(self) -> None:
        """Sends one or more requests, which the broker reads together."""
        idle = [client for client in self.clients if client.waiting_for is None]
        for client in self.rng.sample(idle, min(len(idle), self.rng.randint(1, 4))):
            self._client_acts(client)

    def _client_acts(self, client: Client) -> None:
        self.last_ticket += 1
        confused = self.rng.random() < 0.06
        call = client.confused(self.last_ticket) if confused else client.next_call(self.last_ticket)
        self.send(client, call)

    def send(self, client: Client, call: Call) -> None:
        if isinstance(call, JoinGroup | SyncGroup | Heartbeat):
            call = replace(call, connection=self._connection(client))
        request = Request(call.ticket, client, call, self.mono_ms - self.leapt_ms)
        self.open[call.ticket] = request
        client.waiting_for = call
        self.happened[type(call).__name__] += 1
        self.checkers.before_call(call)
        outcome = self.shard.handle(call, self.now)
        self._take(outcome)
        self.checkers.after_call(call, outcome)

    def client_repeats(self) -> None:
        """Sends the unanswered request of a client again, on another connection."""
        waiting = [client for client in self.clients if client.waiting_for is not None]
        if waiting:
            client = self.rng.choice(waiting)
            self.connections[client.name] += 1
            self.last_ticket += 1
            fresh = {"ticket": self.last_ticket}
            joins = isinstance(client.waiting_for, JoinGroup | ConsumerHeartbeat)
            if joins and not client.waiting_for.member_id:
                fresh["fresh_id"] = f"{self.last_ticket:08x}"
            self.send(client, replace(client.waiting_for, **fresh))

    def client_disconnects(self) -> None:
        waiting = [client for client in self.clients if client.waiting_for is not None]
        if waiting:
            self._disconnect(self.rng.choice(waiting))

    def client_restarts(self) -> None:
        """Restarts a crashed client. A static member keeps its instance id."""
        client = self.rng.choice(self.clients)
        self._disconnect(client)
        client.restart()

    def _disconnect(self, client: Client) -> None:
        """Closes the connection of a client. Its parked requests stay parked, but their responses
        are dropped."""
        self.held = [held for held in self.held if held.request.client is not client]
        client.waiting_for = None
        self._take(self.shard.connection_closed(self._connection(client), self.now))
        self.connections[client.name] += 1

    def _connection(self, client: Client) -> tuple[str, int]:
        return client.name, self.connections[client.name]

    def time_passes(self) -> None:
        passed_ms = self.rng.choice([1, 20, 300, 1_500])
        self.mono_ms += passed_ms
        self.wall_ms += passed_ms

    def time_leaps(self) -> None:
        """Advances the clocks by a long time in which the process was suspended or idle."""
        leap_ms = self.rng.choice([7_000, 31_000, 400_000])
        self.mono_ms += leap_ms
        self.wall_ms += leap_ms
        self.leapt_ms += leap_ms

    def wall_clock_jumps(self) -> None:
        self.wall_ms += self.rng.choice([-3_600_000, -5_000, 5_000, 30_000])

    def topic_is_deleted(self) -> None:
        self._take(self.shard.topics_deleted({self.rng.choice(TOPICS): EVERY_LOG_OFFSET}, self.now))

    # --------------------------------------------------------------------------- log and turns

    def _take(self, outcome: Outcome) -> None:
        """Replays and encodes the records of an outcome. Its replies are held until the records are
        appended."""
        self._accept(list(outcome.records))
        for ticket, reply in outcome.replies:
            request = self.open.pop(ticket, None)
            assert request is not None, f"ticket {ticket} was answered twice, or never given"
            self.checkers.replied(request.call, reply)
            self.held.append(Held(self.accepted, request, reply))
        self.checkers.told(outcome.events)

    def _accept(self, runs: list[Run | OwnBatch]) -> None:
        """Encodes runs as one batch if they fit, or else as one batch per run. Replays each run at
        once."""
        if runs and isinstance(runs[0], OwnBatch):
            self._accept_own(runs)
            return
        sizes = [len(run_records(run, 0)) for run in runs]
        together = sum(sizes) + 8 * len(runs) + 61 <= self.config.max_record_bytes
        for unit in [runs] if together else [[run] for run in runs]:
            first, section = self.accepted, b""
            for run in unit:
                self.checkers.before_replay(run)
                section += run_records(run, self.accepted - first)
                self.shard.replay(run, self.accepted)
                self.accepted += len(run)
            if unit:
                data = assemble_batch(
                    section, self.accepted - first, first, self.wall_ms, self.wall_ms
                )
                assert len(data) <= self.config.max_record_bytes, "accepted, and cannot be written"
                self.unappended.append(Batch(first, self.accepted, data))
                self.checkers.accepted(data)

    def _accept_own(self, runs: list[Any]) -> None:
        """Encodes each run as a batch of its own, since a batch has only one producer id."""
        for run in runs:
            self.checkers.before_replay(run)
            data, _ = own_batch(run, PLAIN_FORM, self.accepted, 0, self.wall_ms)
            assert len(data) <= self.config.max_record_bytes, "accepted, and cannot be written"
            self.shard.replay(run, self.accepted)
            first = self.accepted
            self.accepted += len(run)
            self.unappended.append(Batch(first, self.accepted, data))
            self.checkers.accepted(data)

    def end_turn(self) -> None:
        """Appends the batches of the turn, and then sends the held replies."""
        self._append(len(self.unappended))
        self._release()

    def disk_flushes(self) -> None:
        """Completes a flush. With flush settings, the replies that wait for the flush are sent."""
        self.log.flush()
        self._release()

    def _append(self, batches: int) -> None:
        self.log.append(self.unappended[:batches])
        del self.unappended[:batches]

    def _release(self) -> None:
        held, self.held = self.held, []
        for each in held:
            if each.log_offset > self.log.stable:
                self.held.append(each)
                continue
            self.checkers.leaves(each.log_offset)
            client = each.request.client
            if client.waiting_for is None or client.waiting_for.ticket != each.request.ticket:
                continue  # the client abandoned the request
            client.waiting_for = None
            if self.rng.random() >= 0.02:
                client.hear(each.request.call, each.reply)
            else:
                self.happened["reply lost"] += 1

    # -------------------------------------------------------------------------------- failures

    def append_fails(self) -> None:
        """Makes the append of the turn fail without writing a byte. The shard is then unloaded and
        loaded again."""
        held, self.held = self.held, []
        for each in held:
            if each.log_offset > self.log.stable:
                each.reply = refusal(each.request.call, COORDINATOR_NOT_AVAILABLE)
            each.log_offset = 0  # the reply depends on no record, or on a stable one
        self.unappended.clear()
        self.accepted = self.log.end
        self._take(self.shard.unload(NOT_COORDINATOR))
        for each in self.held:
            each.log_offset = 0
        assert not self.open, "unload left somebody waiting"
        self.held = held + self.held
        self._load()
        self._release()

    def crash(self) -> None:
        """Kills the process. The log may contain a part of the turn's records, and all state in
        memory is lost.

        With flush settings, the crash may be a power failure, which may also remove records that
        were not flushed.
        """
        self._append(self.rng.randint(0, len(self.unappended)))
        self.unappended.clear()
        if self.log.flushes and self.rng.random() < 0.5:
            self.happened["power lost"] += 1
            lost = self.log.unflushed()
            self.log.lose(self.rng.choice([lost, self.rng.randint(0, lost)]))
        self.accepted = self.log.end
        self.held.clear()
        self.open.clear()
        for client in self.clients:
            client.waiting_for = None
        self.mono_ms = self.rng.randint(0, 100_000)  # the clock of another boot
        self._load()

    def log_is_cleaned(self) -> None:
        """Cleans the log up to a random batch. Asserts that a shard that is loaded from the cleaned
        log has all state that it must keep."""
        self.log.flush()  # a superseded record is removed only after the newer one is flushed
        cut = self.rng.randint(0, len(self.log.batches))
        self.log.clean(cut, self.rng.random() < 0.3)
        self.checkers.check_reload(with_snapshot=False)
        if self.log.snapshot is not None:
            self.checkers.check_reload(with_snapshot=True)

    def snapshot_is_taken(self) -> None:
        """Appends all records that are not yet in the log, and then takes a snapshot, as the broker
        does."""
        self._append(len(self.unappended))
        self.log.take_snapshot(self.shard)
        self.checkers.check_reload(with_snapshot=True)

    def _load(self) -> None:
        self.log.opened()
        self.checkers.reloaded()
        self.shard = self.loaded_shard(with_snapshot=True)
        self._take(self.shard.loaded(self.now))

    def loaded_shard(self, with_snapshot: bool) -> GroupShard:
        """Returns a new shard that has replayed the log and the records of the current turn.
        ``loaded`` has not yet been called on this shard."""
        shard = GroupShard(self.config)
        self.log.replay(shard, self.unappended, with_snapshot)
        return shard

    # ------------------------------------------------------------------------------------ calm

    def calm(self, rounds: int = 400) -> None:
        """Ends all faults. Asserts that within ``rounds`` rounds each group is stable with all its
        members."""
        complaints = ["nothing was tried"]
        for _ in range(rounds):
            complaints = self.checkers.unrest()
            if not complaints:
                return
            for client in self.clients:
                if not isinstance(client, Admin | Transactor) and client.waiting_for is None:
                    self.last_ticket += 1
                    self.send(client, client.next_call(self.last_ticket, calm=True))
                    self.do_what_is_due()
            held, self.held = self.held, []
            self._append(len(self.unappended))
            self.log.flush()
            for each in held:
                client = each.request.client
                if client.waiting_for is not None and (
                    client.waiting_for.ticket == each.request.ticket
                ):
                    client.waiting_for = None
                    client.hear(each.request.call, each.reply)
            self.mono_ms += 500
            self.wall_ms += 500
            self.do_what_is_due()
            self.checkers.check_all()
        raise AssertionError(f"no rest after {rounds} calm rounds of 500 ms: {complaints}")
