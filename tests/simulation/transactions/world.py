"""A simulation of a whole broker with transactional clients, with all kinds of faults.

Producers with transaction.version 1 and 2 write transactions to several partitions and groups, each
producer on two connections. Some requests arrive twice. The process is killed at random, by a power
failure, or right after a write of a transaction state record or a marker. `truth.py` compares the
logs with the ledger of the clients.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from broker.cores import snapshots
from protocol.buffer import Buffer
from protocol.errors import NONE, TOPIC_ALREADY_EXISTS
from tests.simulation.transactions import truth
from tests.simulation.transactions.ledger import Ledger, Place
from tests.simulation.transactions.producer import (
    OUT,
    SOURCE,
    SOURCE_PARTITIONS,
    TIMEOUT_S,
    TransactionalProducer,
    Zombie,
)
from tests.simulation.transactions.readers import CommittedReader, Ghost, OffsetsReader
from tests.simulation.transactions.second_connection import SecondConnection
from tests.simulation.whole.agenda import MS, S
from tests.simulation.whole.client import Client, Sent, WireRequest
from tests.simulation.whole.disk_log import OFFSETS_TOPIC
from tests.simulation.whole.faults import FAULTS_WORTH
from tests.simulation.whole.living import LivingWorld
from tests.simulation.whole.process import Process
from tests.simulation.whole.virtual_time import WALL_S

SWEEP_S = 2
STATE_PARTITIONS = OFFSETS_PARTITIONS = 2
OPEN_S = TIMEOUT_S + 2 * SWEEP_S
"""The maximum time in seconds for which a transaction of an inactive client stays open while the
broker serves."""
LOOKS_S = 1
FOREIGN_CHANCE = 0.05
"""The probability that a check of the simulation raises the coordinator epoch that one partition
remembers. The coordinator's own epoch is then lower, as after the restore of an old backup of its
log."""
SNAPSHOT_BYTES = 3_000
"""The number of log bytes after which the broker writes a snapshot of groups, because a restart may
not replay more bytes."""
OFFSETS: tuple[Place, ...] = tuple((OFFSETS_TOPIC, index) for index in range(OFFSETS_PARTITIONS))
_CONTROL = 0x20
_ATTRIBUTES_AT = 22
_HEADER_BYTES = 61


class TransactionWorld(LivingWorld):
    """The simulated broker and its transactional clients, as the seed determines them."""

    def __init__(self, seed: int, producers: int = 4, *, doubled: bool = True) -> None:
        super().__init__(seed)
        chance = self.chance
        self.ledger = Ledger()
        self.doubled = doubled
        self.flushes = chance.random() < 0.5
        """True if each record is fsynced before its acknowledgement. Only then may the machine lose
        power."""
        self.crash_chance = chance.choice((0.0, 0.01, 0.05))
        """The probability that the broker is killed after it writes a transaction state record or a
        marker."""
        self.settings = {
            "offsets.topic.num.partitions": str(OFFSETS_PARTITIONS),
            "transaction.state.log.num.partitions": str(STATE_PARTITIONS),
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": str(SWEEP_S * 1000),
            "log.cleaner.enable": "false",
            "log.segment.bytes": chance.choice(("2000", "1000000")),
            "group.initial.rebalance.delay.ms": "0",
            # Accepted records are appended this much later, so that a turn has time for many
            # requests.
            "group.coordinator.append.linger.ms": chance.choice(("0", "0", "0", "5")),
        }
        if self.flushes:
            self.settings["log.flush.interval.messages"] = "1"
        # A clock that is set back keeps transactions open for longer by that time, as in Kafka.
        self.faults.worth = {
            name: worth
            for name, worth in {**FAULTS_WORTH, "stop": 8}.items()
            if name != "wall clock jumps" and (self.flushes or name != "power")
        }
        self.files.on_written = self._file_written
        self.topics_made = False
        self._served_s: dict[tuple[Place, int, int], float] = {}
        """For each open transaction: the number of seconds for which broker processes have served
        since the transaction was first seen.

        The time of a process before its first sweep does not count, because only sweeps abort
        transactions.
        """
        self._looked_at: Process | None = None
        self._life_s = 0
        """The age of the current process in seconds."""
        self.producers = [self._producer(number) for number in range(producers)]
        zombies = [producer.zombie for producer in self.producers if producer.zombie is not None]
        seconds = [producer.second for producer in self.producers if producer.second is not None]
        self.readers = [
            CommittedReader(
                self, f"reads {name}-{index}", f"10.3.0.{at}", self._fork(), (name, index)
            )
            for at, (name, index) in enumerate(OUT)
        ]
        self.offsets_readers = [
            OffsetsReader(self, f"asks for {each.group_id}", f"10.5.0.{number}", self._fork(), each)
            for number, each in enumerate(self.producers)
        ]
        self.ghost = Ghost(self, "ghost", "10.4.0.1", self._fork())
        maker = Maker(self, "maker", "10.4.0.2", self._fork())
        self.populate(
            [
                maker,
                *self.producers,
                *zombies,
                *seconds,
                *self.readers,
                *self.offsets_readers,
                self.ghost,
            ]
        )
        self._foreign = self._fork()
        self.agenda.after(LOOKS_S * S, self._look)

    def _producer(self, number: int) -> TransactionalProducer:
        name, host = f"producer-{number}", f"10.2.0.{number}"
        rules = 1 + number % 2
        producer = TransactionalProducer(self, name, host, self._fork(), rules)
        producer.zombie = Zombie(producer, f"10.2.1.{number}", self._fork())
        producer.second = SecondConnection(
            self, f"{name} again", f"10.2.2.{number}", self._fork(), producer
        )
        return producer

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Lowers the number of bytes after which a broker writes a snapshot, until the end of the
        `with` block, because the logs of a simulation are small."""
        before = snapshots.BYTES_DUE, snapshots.BYTES_DUE_AT_STOP
        snapshots.BYTES_DUE = snapshots.BYTES_DUE_AT_STOP = SNAPSHOT_BYTES
        try:
            yield
        finally:
            snapshots.BYTES_DUE, snapshots.BYTES_DUE_AT_STOP = before

    # -- requests of clients

    @property
    def wall_ms(self) -> int:
        return WALL_S * 1000 + self.agenda.now_ns // MS

    def ends(self) -> dict[Place, int]:
        assert self.process is not None
        found = {}
        for place in (*OUT, *OFFSETS):
            partition = self.process.broker.logs.get(*place)
            found[place] = 0 if partition is None else partition.log.log_end_offset
        return found

    def may_be_doubled(self, producer: TransactionalProducer, request: WireRequest) -> None:
        """Sometimes delivers ``request`` twice. The second copy arrives later, as from a proxy that
        repeats requests."""
        deed = producer.state.deed
        if self.doubled and deed is not None and self.chance.random() < 0.02:
            self.ledger.stray(deed, producer.state.producer_id, producer.state.epoch)
            self.ghost.haunt(request)

    # -- failures

    def _file_written(self, path: str, data: Buffer) -> None:
        """Called after each write to a file. May kill the process."""
        if not path.endswith(".log") or self.calm:
            return
        if "__transaction_state" in path:
            what = "state record"
        elif len(data) >= _HEADER_BYTES and data[_ATTRIBUTES_AT] & _CONTROL:
            what = "offsets marker" if OFFSETS_TOPIC in path else "marker"
        else:
            return
        process = self.process
        if process is not None and process.serves and self.chance.random() < self.crash_chance:
            self.happened[f"crash behind a {what}"] += 1
            self.end_process(power_fails=self.flushes and self.chance.random() < 0.5)
            self.network.cut()

    def power_fails(self) -> None:
        assert self.flushes

    def serves(self) -> None:
        for ends in self.ledger.fences.values():  # unacknowledged records may be lost
            for place, end in self.ends().items():
                ends[place] = min(ends.get(place, end), end)
        self.guarded(self.check)

    # -- checks

    def check(self, at_rest: bool = False) -> None:
        """Compares the logs with the transactions that the clients know (`Ledger`)."""
        found = {place: truth.read(self.files, place) for place in OUT}
        offsets = [truth.read(self.files, place) for place in OFFSETS]
        truth.check(self.ledger, [*found.values(), *offsets], at_rest)
        for reader in self.readers:
            reader.check(found[reader.place].committed)

    def _look(self) -> None:
        """Asserts every second that no transaction has been open for too long: its timeout plus two
        intervals at which the broker aborts transactions that timed out."""
        self.agenda.after(LOOKS_S * S, self._look)
        if not self.calm and self._foreign.random() < FOREIGN_CHANCE:
            self._meet_foreign_coordinator()
        self.guarded(self._check_open)

    def _meet_foreign_coordinator(self) -> None:
        """Raises the coordinator epoch that a partition remembers from its markers. The partition
        then rejects the coordinator's next markers, as after the restore of an old backup of the
        coordinator's log."""
        process = self.process
        if process is None or not process.serves:
            return
        partition = process.broker.logs.get(*self._foreign.choice((*OUT, *OFFSETS)))
        if partition is not None:
            self.happened["later coordinator"] += 1
            table = partition.log.producers._table
            for piece in table.pieces():
                for producer_id, (epoch, timestamp_ms, coordinator_epoch, *rest) in piece:
                    table.put(producer_id, (epoch, timestamp_ms, coordinator_epoch + 5, *rest))

    def _check_open(self) -> None:
        process = self.process
        if process is None or not process.serves:
            return
        if process is not self._looked_at:
            self._looked_at, self._life_s = process, 0
        self._life_s += LOOKS_S
        in_trouble = (
            self._life_s <= SWEEP_S  # the process has not yet swept for transactions that timed out
            or self.faults.disk_in_trouble
            or self.disk_ns
            or (process.loop.now_ns > self.agenda.now_ns + 500 * MS)
        )
        before, self._served_s = self._served_s, {}
        for place in OUT:
            partition = process.broker.logs.get(*place)
            if partition is None:
                continue
            for producer_id, first in partition.log.producers.open_transactions.items():
                key = place, producer_id, first
                served_s = before.get(key, 0.0) + (0 if in_trouble else LOOKS_S)
                self._served_s[key] = served_s
                assert served_s <= OPEN_S + 6, (
                    f"{place}: producer {producer_id} has had a transaction open from {first} on"
                    f" for {served_s} s in which the broker served"
                )

    def rest(self) -> None:
        """Ends all faults and starts no new transactions. Asserts that within a bounded time no
        transaction is open, and that all records are read."""
        self.calm_down()
        self.run(5)
        self.run(OPEN_S + 10)
        assert self.process is not None
        assert self.process.serves, "no broker serves"
        self._check_errors(self.process)
        broker = self.process.broker
        for place in OUT:
            partition = broker.logs.get(*place)
            assert partition is not None
            open_now = dict(partition.log.producers.open_transactions)
            assert not open_now, f"{place}: {open_now} is open still"
            assert partition.last_stable_offset == partition.high_watermark
        for hosted in broker.transactions.hosted_shards:
            assert not list(hosted.core.view.open()), "a transaction is open still"
        for reader in self.readers:
            partition = broker.logs.get(*reader.place)
            assert partition is not None
            assert reader.position == partition.high_watermark, f"{reader.name} got nowhere"
        self.check(at_rest=True)
        self._check_offsets()

    def _check_offsets(self) -> None:
        """Asserts that the fetched offsets of each group equal the offsets that the group's last
        committed transaction wrote."""
        assert self.process is not None
        latest: dict[tuple[str, int], int] = {}
        for place in OFFSETS:
            found = truth.read(self.files, place)
            for _, commit in sorted(found.offsets.items()):
                latest[commit.group_id, commit.partition] = commit.offset
        groups = self.process.broker.groups
        for producer in self.producers:
            hosted = groups.hosted_for(producer.group_id)
            assert hosted is not None
            told = {
                (producer.group_id, partition): offset
                for columns in hosted.core.view.offsets.fetch_all(producer.group_id)
                for partition, offset in zip(columns.partitions, columns.offsets, strict=True)
            }
            expected = {key: o for key, o in latest.items() if key[0] == producer.group_id}
            assert told == expected, f"{producer.group_id} is told {told}, and it is {expected}"
            assert not list(hosted.core.view.all_pending()), "offsets are pending still"
        for reader in self.offsets_readers:
            heard = {(reader.of.group_id, key): offset for key, offset in reader.told.items()}
            for key, offset in heard.items():
                assert offset == latest.get(key, -1), f"{reader.name} hears {offset} of {key}"
            assert not reader.unstable, f"{reader.name} hears of unstable offsets"


class Maker(Client):
    """Creates the topics. Also makes the broker create its internal topics."""

    def act(self) -> None:
        value: dict[str, Any]
        market = self.world
        assert isinstance(market, TransactionWorld)
        if not market.topics_made:
            counts = {SOURCE: SOURCE_PARTITIONS, "more": 1}
            topics = [
                {
                    "name": name,
                    "num_partitions": count,
                    "replication_factor": 1,
                    "assignments": [],
                    "configs": [],
                }
                for name, count in counts.items()
            ]
            value = {"topics": topics, "timeout_ms": 30_000, "validate_only": False}
            self.send(WireRequest("CreateTopics", 4, value))
        else:
            value = {"key": "anything", "key_type": self.chance.randint(0, 1)}
            self.send(WireRequest("FindCoordinator", 2, value))

    def hear(self, sent: Sent, frame: bytes) -> None:
        answer = sent.answer_in(frame)
        if sent.request.name == "CreateTopics":
            codes = {topic["error_code"] for topic in answer["topics"]}
            market = self.world
            assert isinstance(market, TransactionWorld)
            market.topics_made = codes <= {NONE, TOPIC_ALREADY_EXISTS}
            self.think_after(100 * MS)
        else:
            self.think_after((5 if answer["error_code"] == NONE else 1) * S)
