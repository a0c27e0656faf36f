"""A simulation of a whole broker whose share groups deliver records, with all kinds of faults.

Members of three groups share four topics. Records are produced with and without transactions.
Retention, DeleteRecords and the deletion of a topic remove records. `ledger.py` checks each
delivery. At the end, each record must be in a final state for a reason that the ledger knows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from random import Random
from typing import TYPE_CHECKING, Any

from broker.apis.shared import share_acknowledgements
from protocol.errors import (
    NONE,
)
from protocol.now import Now
from protocol.records.batch import records_of
from protocol.records.stored import iter_stored
from share.partition import acknowledgement, acquisition, loading, share_partition
from share.partition.acknowledgement import PIECE
from share.partition.share_partition import SharePartition
from share.partition.values import AckBatch, AcquiredRange, FetchedRecords
from share.values import SharePartitionKey
from tests.simulation.share.admin import Admin
from tests.simulation.share.consumer import Ghost, ShareConsumer
from tests.simulation.share.ledger import RENEW, Asked, Limits, MemberKey, ShareLedger
from tests.simulation.share.places import COMMITTED, FLEETING, GROUPS, STABLE, STREAM, TXN
from tests.simulation.share.producers import BATCH_RECORDS_MAX, Producer, TransactionalProducer
from tests.simulation.transactions import truth
from tests.simulation.whole.client import Client, WireRequest
from tests.simulation.whole.disk_log import batches_of
from tests.simulation.whole.faults import FAULTS_WORTH
from tests.simulation.whole.living import LivingWorld
from tests.simulation.whole.process import Process

if TYPE_CHECKING:
    from tests.simulation.whole.network import Wire

REST_S = 150
"""The maximum time in seconds without faults until all records are in a final state."""
DOUBLED_CHANCE = 0.03
_WITH_PIECES: tuple[Any, ...] = (
    acknowledgement,
    acquisition,
    loading,
    share_partition,
    share_acknowledgements,
)
"""Modules that use `PIECE`, the size of one piece of a long operation."""


class ShareWorld(LivingWorld):
    """A simulated broker whose share groups deliver records. The seed determines its settings and
    all events."""

    def __init__(self, seed: int, members: int = 3) -> None:
        super().__init__(seed)
        chance = self.chance
        self.flushes = chance.random() < 0.5
        """True if each record is fsynced before its acknowledgement. If it is False, the simulation
        must not cut the power of the machine."""
        limits = Limits(
            lock_ms=chance.choice((1_500, 4_000)),
            delivery_count=chance.choice((2, 5, 5, 10)),
            record_locks=chance.choice((100, 100, 400)),
            session_ms=5_000,
        )
        self.ledger = ShareLedger(limits, self.happened, self._log_start)
        self.settings = self._settings(limits)
        if self.flushes:
            self.settings["log.flush.interval.messages"] = "1"
        self.faults.worth = {
            name: worth
            for name, worth in FAULTS_WORTH.items()
            if name != "wall clock jumps" and (self.flushes or name != "power")
        }
        self.piece = chance.choice((2, 10, PIECE))
        """A long operation on a share partition runs in pieces. This is the maximum number of
        record ranges that one piece handles."""
        self.topics_made = False
        self.values: dict[tuple[bytes, int], dict[int, bytes]] = {}
        """Values of all delivered records, by topic id, partition index and offset."""
        self._closing: list[tuple[Wire, Asked]] = []
        """Closed connections that the broker has not yet noticed, with the members that used
        them."""
        self.ghost = Ghost(self, "ghost", "10.4.0.1", self._fork())
        self.populate([*self._consumers(members), *self._others(), self.ghost])

    def _settings(self, limits: Limits) -> dict[str, str]:
        chance = self.chance
        return {
            "offsets.topic.num.partitions": "2",
            "transaction.state.log.num.partitions": "1",
            "share.coordinator.state.topic.num.partitions": "2",
            "share.coordinator.snapshot.update.records.per.snapshot": chance.choice(
                ("1", "20", "500")
            ),
            "share.coordinator.state.topic.prune.interval.ms": "7000",
            "share.coordinator.state.topic.segment.bytes": chance.choice(("3000", "1000000")),
            "share.coordinator.cold.partition.snapshot.interval.ms": "20000",
            "share.coordinator.append.linger.ms": chance.choice(("-1", "-1", "5")),
            "group.share.min.record.lock.duration.ms": "1000",
            "group.share.record.lock.duration.ms": str(limits.lock_ms),
            "group.share.delivery.count.limit": str(limits.delivery_count),
            "group.share.partition.max.record.locks": str(limits.record_locks),
            "group.share.min.session.timeout.ms": "1000",
            "group.share.session.timeout.ms": str(limits.session_ms),
            "group.share.min.heartbeat.interval.ms": "500",
            "group.share.heartbeat.interval.ms": "1000",
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": "2000",
            "log.retention.check.interval.ms": "3000",
            "log.cleaner.enable": "false",
        }

    def _consumers(self, members: int) -> list[Client]:
        return [
            ShareConsumer(
                self, f"{group}-{i}", f"10.{20 + number}.0.{i}", self._fork(), group, topics
            )
            for number, (group, topics) in enumerate(GROUPS.items())
            for i in range(members)
        ]

    def _others(self) -> list[Client]:
        def client(name: str, number: int) -> tuple[str, str, Random]:
            return name, f"10.3.0.{number}", self._fork()

        places = [place for place in STABLE if place[0] != TXN]
        transactional = [(TXN, 0), (TXN, 1), (STREAM, 0)]
        return [
            Admin(self, *client("admin", 1)),
            Producer(self, *client("producer", 2), places),
            Producer(self, *client("busy", 3), [(STREAM, 0)]),
            Producer(self, *client("fleeting producer", 4), [(FLEETING, 0)]),
            TransactionalProducer(self, *client("transactional", 5), transactional),
            TransactionalProducer(self, *client("other", 6), transactional),
        ]

    # -- reports of clients

    def ledger_now(self) -> ShareLedger:
        """Sets the ledger's time to the current time, and returns the ledger."""
        self.ledger.now_ns = self.agenda.now_ns
        return self.ledger

    def may_be_doubled(self, request: WireRequest) -> None:
        """Sometimes delivers a request a second time, later."""
        if not self.calm and len(self.ghost.copies) < 5 and self.chance.random() < DOUBLED_CHANCE:
            self.ghost.copies.append(request)

    def closing(self, wire: Wire, member: MemberKey) -> None:
        """Notes that the member's connection ``wire`` has closed, so that the broker must end the
        share session of ``member``. Does nothing if the client's machine has vanished, because the
        broker can't notice that."""
        if wire._sent_until_ns >= 0:
            self._closing.append((wire, self.ledger_now().disconnects(member)))

    def _log_start(self, key: SharePartitionKey) -> int:
        """Returns the log start offset of a partition, or a high number if the log does not
        exist."""
        if self.process is not None:
            broker = self.process.broker
            topic = broker.registry.topic_by_id(key.topic_id)
            partition = None if topic is None else broker.logs.get(topic.name, key.partition)
            if partition is not None:
                return partition.log.log_start_offset
        return 1 << 62

    def held_by_others(self, group_id: str, member_id: str, place: tuple[bytes, int]) -> list[int]:
        """Returns those of the newest 50 delivered offsets whose last delivery was to another
        member than ``member_id``."""
        book = self.ledger.books.get(SharePartitionKey(group_id, *place))
        if book is None:
            return []
        newest = list(book.deliveries.items())[-50:]
        return [offset for offset, each in newest if each.member[1] != member_id]

    def got(self, topic_id: bytes, index: int, offset: int, value: bytes) -> None:
        """Notes the value of a delivered record, and asserts that it is the same as in earlier
        deliveries."""
        values = self.values.setdefault((topic_id, index), {})
        known = values.setdefault(offset, value)
        assert known == value, f"{offset} of {topic_id.hex()}-{index}: {known!r}, then {value!r}"

    # -- hooks of the world

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Reports each acquisition and each renewal to the `ShareLedger` while the block runs."""
        acquire, acknowledge = SharePartition.acquire, SharePartition.acknowledge

        def acquiring(
            share: SharePartition,
            member_id: str,
            fetched: FetchedRecords,
            max_records: int,
            batch_size: int,
            mode: int,
            now: Now,
        ) -> list[AcquiredRange]:
            found = acquire(share, member_id, fetched, max_records, batch_size, mode, now)
            self.guarded(self._acquired, share, member_id, found, now.mono_ms)
            return found

        def acknowledging(
            share: SharePartition,
            member_id: str,
            batches: Sequence[AckBatch],
            now: Now,
            is_renew: bool = False,
        ) -> Any:
            result = acknowledge(share, member_id, batches, now, is_renew)
            if is_renew and result.error_code == NONE:
                offsets = [
                    first + i
                    for first, last, types in batches
                    for i in range(last - first + 1)
                    if types[min(i, len(types) - 1)] == RENEW
                ]
                ledger = self.ledger_now()
                self.guarded(ledger.renewed, share, share.key, member_id, offsets, now.mono_ms)
            return result

        for module in _WITH_PIECES:
            module.PIECE = self.piece
        SharePartition.acquire = acquiring  # type: ignore[method-assign]
        SharePartition.acknowledge = acknowledging  # type: ignore[method-assign]
        try:
            yield
        finally:
            for module in _WITH_PIECES:
                module.PIECE = PIECE
            SharePartition.acquire = acquire  # type: ignore[method-assign]
            SharePartition.acknowledge = acknowledge  # type: ignore[method-assign]

    def _acquired(
        self, share: SharePartition, member_id: str, ranges: Sequence[AcquiredRange], now_ms: int
    ) -> None:
        limits = self.ledger.limits
        self.ledger_now().acquired(share, share.key, member_id, ranges, now_ms)
        window = share.end_offset - share.start_offset + 1
        assert window < limits.record_locks + BATCH_RECORDS_MAX, f"{window} offsets are in flight"
        if window >= limits.record_locks:
            self.happened["in-flight limit reached"] += 1

    def looked_at(self) -> None:
        if self._closing:
            wires = self.network.wires
            for wire, asked in self._closing:
                if wire not in wires:
                    asked.answered = self.ledger.next_event()
            self._closing = [each for each in self._closing if each[0] in wires]

    def power_fails(self) -> None:
        assert self.flushes

    # -- rest

    def rest(self) -> None:
        """Ends all faults. Asserts that within a bounded time each record is in a final state, for
        a known reason."""
        self.calm_down()
        unrest = ["nothing was tried"]
        for _ in range(REST_S // 5):
            self.run(5)
            unrest = list(self._unrest())
            if not unrest:
                break
        assert not unrest, f"no rest after {REST_S} calm seconds: {unrest}"
        assert self.process is not None
        self._check_errors(self.process)
        self._check_sessions(self.process)
        for topic, index in STABLE:
            self._check_place(topic, index)

    def _check_sessions(self, process: Process) -> None:
        """Asserts that the connection of each share session is open, so that the session ends when
        the connection closes. Asserts that no release is pending."""
        broker = process.broker
        for session in broker.share_sessions._sessions.values():
            connection = session.connection
            assert connection in broker.server.connections, f"{session.key} can't end"
        assert not len(broker.share_partitions.releases), "a release has not ended"

    def _keys(self, topic: str, index: int) -> list[SharePartitionKey]:
        assert self.process is not None
        found = self.process.broker.registry.topic(topic)
        assert found is not None
        return [
            SharePartitionKey(group, found.topic_id, index)
            for group, topics in GROUPS.items()
            if topic in topics
        ]

    def _unrest(self) -> Iterator[str]:
        process = self.process
        if process is None or not process.serves or not self.topics_made:
            yield "no broker serves"
            return
        for topic, index in STABLE:
            partition = process.broker.logs.get(topic, index)
            if partition is None or partition.last_stable_offset != partition.high_watermark:
                yield f"{topic}-{index} has an open transaction, or does not exist"
                continue
            for key in self._keys(topic, index):
                lives = process.broker.share_partitions.of_group(key.group_id)
                found = [live.share for live in lives if live.key == key and live.share is not None]
                if not found:
                    yield f"{key.group_id} has not loaded {topic}-{index}"
                elif found[0].start_offset < partition.high_watermark:
                    yield (
                        f"{key.group_id} has delivered {topic}-{index} to {found[0].start_offset}"
                        f" of {partition.high_watermark}: {list(found[0].in_flight())[:3]}"
                    )

    def _check_place(self, topic: str, index: int) -> None:
        """Checks each record in the log of a partition. It must be in a final state for a known
        reason, and its delivered value must be the value in the log."""
        assert self.process is not None
        partition = self.process.broker.logs.get(topic, index)
        assert partition is not None
        committed = truth.read(self.files, (topic, index)).committed
        records = {
            record.offset: (header.is_control, record.value or b"")
            for _, _, data in batches_of(self.files, topic, index, synced=False)
            for header, _ in iter_stored(data)
            for record in records_of(data, header)
        }
        for key in self._keys(topic, index):
            book = self.ledger.books.get(key)
            values = self.values.get((key.topic_id, index), {})
            for offset, (is_control, value) in records.items():
                if offset < partition.log.log_start_offset:
                    continue
                assert values.get(offset, value) == value, f"{offset} of {key}: {values[offset]!r}"
                is_aborted = not is_control and offset not in committed
                if key.group_id == COMMITTED and is_aborted:
                    assert book is None or offset not in book.deliveries, (
                        f"{offset} of {key} was aborted and delivered"
                    )
                    self.happened["aborted record skipped"] += 1
                else:
                    assert book is not None, f"{key} was never delivered"
                    assert book.ended(offset, self.ledger.limits), (
                        f"{offset} of {key} is lost: {book.deliveries.get(offset)},"
                        f" {book.acks[offset]}"
                    )
                    self.happened["final record"] += 1
