"""Consumers with isolation level read_committed, which filter aborted records as Kafka's clients do
and remember all records."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

from protocol.errors import (
    NONE,
    OFFSET_OUT_OF_RANGE,
    UNKNOWN_SERVER_ERROR,
    UNSTABLE_OFFSET_COMMIT,
)
from protocol.records.batch import records_of
from protocol.records.stored import iter_stored
from tests.simulation.transactions.ledger import Place
from tests.simulation.transactions.producer import (
    SOURCE,
    SOURCE_PARTITIONS,
    TransactionalProducer,
)
from tests.simulation.whole.agenda import MS, S
from tests.simulation.whole.client import CONNECTS_AGAIN_NS, Client, Sent, WireRequest

if TYPE_CHECKING:
    from tests.simulation.whole.living import LivingWorld

_ABORT = b"\0\0"


class CommittedReader(Client):
    """Reads one partition from its start with isolation level read_committed."""

    def __init__(
        self, world: LivingWorld, name: str, host: str, chance: Random, place: Place
    ) -> None:
        super().__init__(world, name, host, chance)
        self.place = place
        self.position = 0
        self.seen: dict[int, bytes] = {}
        """Values of the records that the application has received, by offset below ``position``."""
        self._again_from = 0

    def act(self) -> None:
        dice = 1.0 if self.calm else self.chance.random()
        if dice < 0.01:
            self.drop_connection()
            self.think_after(self.chance.choice(CONNECTS_AGAIN_NS))
            return
        if dice < 0.03:
            self.position, self.seen = 0, {}
        topic, partition = self.place
        wanted = {
            "partition": partition,
            "fetch_offset": self.position,
            "partition_max_bytes": 1 << 20 if self.calm else self.chance.choice((1, 300, 1 << 20)),
        }
        value = {
            "max_wait_ms": self.chance.choice((0, 500, 5_000)),
            "min_bytes": self.chance.choice((1, 1, 500)),
            "max_bytes": 1 << 22,
            "isolation_level": 1,
            "session_id": 0,
            "session_epoch": -1,
            "topics": [{"topic": topic, "partitions": [wanted]}],
            "forgotten_topics_data": [],
        }
        self.send(WireRequest("Fetch", self.chance.randint(4, 12), value), self.position)

    @property
    def surely(self) -> bool:
        """Returns True if the connected broker is certainly the current leader."""
        return True

    def hear(self, sent: Sent, frame: bytes) -> None:
        self.take(sent, sent.answer_in(frame))

    def take(self, sent: Sent, answer: dict[str, Any]) -> int:
        """Reads the records of a Fetch response, and returns its error code."""
        topics = answer["responses"]
        fetched = topics[0]["partitions"][0] if topics else {"error_code": UNKNOWN_SERVER_ERROR}
        code = int(fetched["error_code"])
        if code == NONE and sent.about == self.position:
            self._take(fetched)
        elif code == OFFSET_OUT_OF_RANGE and self.surely:
            raise AssertionError(f"{self.name} was told of {sent.about}, and it is out of range")
        self.think_after(self.chance.choice((1, 20, 300)) * MS if not self.calm else 1 * S // 10)
        return code

    def _take(self, fetched: dict[str, Any]) -> None:
        begins = [(each["first_offset"], each["producer_id"]) for each in _aborted(fetched)]
        assert begins == sorted(begins), f"{self.name}: {begins} is not in order"
        aborted: set[int] = set()
        data = fetched["records"] or b""
        for header, _ in iter_stored(data, partial=True):
            while begins and begins[0][0] <= header.last_offset:
                aborted.add(begins.pop(0)[1])
            assert header.last_offset < fetched["last_stable_offset"], f"{self.name}: {header}"
            if header.is_control:
                if (records_of(data, header)[0].key or b"")[2:4] == _ABORT:
                    aborted.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in aborted):
                for record in records_of(data, header):
                    if record.offset >= self.position:
                        self.seen[record.offset] = record.value or b""
            self.position = max(self.position, header.last_offset + 1)

    def check(self, committed: dict[int, bytes]) -> None:
        """Asserts that the received records equal the committed records of the log up to
        ``position``."""
        below = {offset: value for offset, value in committed.items() if offset < self.position}
        if self.seen != below:
            odd = sorted(self.seen.items() ^ below.items())
            raise AssertionError(
                f"{self.name} at {self.position} has seen otherwise than was committed: {odd[:5]}"
            )


class OffsetsReader(Client):
    """Fetches the offsets of a group, with or without ``require_stable``. Asserts that the offsets
    never decrease."""

    def __init__(
        self,
        world: LivingWorld,
        name: str,
        host: str,
        chance: Random,
        of: TransactionalProducer,
    ) -> None:
        super().__init__(world, name, host, chance)
        self.of = of
        self.told: dict[int, int] = {}
        """The last fetched offset of each partition."""
        self.unstable: set[int] = set()
        """Partitions for which the last response had the error UNSTABLE_OFFSET_COMMIT."""

    def act(self) -> None:
        value = {
            "group_id": self.of.group_id,
            "topics": [{"name": SOURCE, "partition_indexes": list(range(SOURCE_PARTITIONS))}],
            "require_stable": self.calm or self.chance.random() < 0.7,
        }
        self.send(WireRequest("OffsetFetch", 7, value))

    @property
    def surely(self) -> bool:
        """Returns True if the connected broker is certainly the current coordinator."""
        return True

    def hear(self, sent: Sent, frame: bytes) -> None:
        self.take(sent.answer_in(frame))

    def take(self, answer: dict[str, Any]) -> int:
        """Checks a response against earlier responses, and returns its error code."""
        code = int(answer["error_code"])
        if code == NONE:
            self.unstable.clear()
            for entry in answer["topics"][0]["partitions"]:
                self._take(entry["partition_index"], entry["error_code"], entry["committed_offset"])
        self.think_after(self.chance.choice((20, 300, 2_000)) * MS)
        return code

    def _take(self, partition: int, code: int, offset: int) -> None:
        if code == UNSTABLE_OFFSET_COMMIT:
            self.world.happened["unstable offset"] += 1
            assert offset == -1
            self.unstable.add(partition)
            return
        assert code == NONE, f"{self.name}: partition {partition} has error {code}"
        before = self.told.get(partition, -1)
        excused = self.of.rules == 1 and self.of.market.ledger.strays
        assert offset >= before or excused or not self.surely, (
            f"{self.name}: partition {partition} goes from {before} to {offset}"
        )
        self.told[partition] = offset


def _aborted(fetched: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = fetched["aborted_transactions"]
    return found


class Ghost(Client):
    """Copies requests of other clients, and sends the copies later on its own connection."""

    def __init__(self, world: LivingWorld, name: str, host: str, chance: Random) -> None:
        super().__init__(world, name, host, chance)
        self.copies: list[WireRequest] = []

    def haunt(self, request: WireRequest) -> None:
        if len(self.copies) < 5:
            self.copies.append(request)

    def act(self) -> None:
        if self.copies and not self.calm:
            self.world.happened["doubled"] += 1
            copy = self.copies.pop(self.chance.randrange(len(self.copies)))
            self.send(copy)
        else:
            self.think_after(self.chance.choice((10, 100, 1_000)) * MS)

    def hear(self, sent: Sent, frame: bytes) -> None:
        self.think_after(self.chance.choice((1, 50, 1_500, 6_000)) * MS)
