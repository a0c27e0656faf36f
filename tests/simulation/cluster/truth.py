"""The records of a partition that clients have seen, compared with its replicas."""

from __future__ import annotations

from protocol.records.batch import records_of
from protocol.records.stored import iter_stored
from tests.simulated_files import SimulatedFiles
from tests.simulation.whole.disk_log import batches_of


class PartitionTruth:
    """The known records of one partition: each was acknowledged to a producer or read by a
    consumer."""

    def __init__(self, topic: str, partition: int) -> None:
        self.topic = topic
        self.partition = partition
        self.known: dict[int, bytes] = {}
        """The known values, by offset."""
        self.once: dict[bytes, int] = {}
        """The offset at which each value of an idempotent producer was seen."""

    def learn(self, offset: int, value: bytes) -> None:
        """Notes that ``value`` is at ``offset``, where it must stay."""
        known = self.known.setdefault(offset, value)
        assert known == value, f"{self.topic}-{self.partition} {offset}: {known!r}, then {value!r}"
        if value.startswith(b"once "):
            first = self.once.setdefault(value, offset)
            assert first == offset, f"{value!r} is at {first} and at {offset}"

    def check(self, files: SimulatedFiles) -> None:
        """Checks that a replica's log has all known records, in the order of their producer."""
        found = {
            record.offset: record.value or b""
            for _, _, data in batches_of(files, self.topic, self.partition, synced=False)
            for header, _ in iter_stored(data)
            for record in records_of(data, header)
        }
        for offset, value in self.known.items():
            assert found.get(offset) == value, (
                f"{self.topic}-{self.partition}: {value!r} at {offset} is {found.get(offset)!r}"
            )
        seen: dict[bytes, int] = {}
        last: dict[bytes, int] = {}
        for offset, value in sorted(found.items()):
            if value.startswith(b"once "):
                assert value not in seen, f"{value!r} is at {seen[value]} and at {offset}"
                seen[value] = offset
                producer, _, number = value.rpartition(b" ")
                assert last.get(producer, 0) + 1 == int(number), (
                    f"{value!r} at {offset} comes after {last.get(producer, 0)}"
                )
                last[producer] = int(number)
