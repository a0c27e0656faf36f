"""The records that clients know to be in a partition. A simulation compares them with the logs of
the partition's replicas."""

from __future__ import annotations

from protocol.records.batch import records_of
from protocol.records.stored import iter_stored
from tests.simulated_files import SimulatedFiles
from tests.simulation.whole.disk_log import batches_of


class PartitionTruth:
    """The known records of one partition. A record is known if a produce was acknowledged or if a
    consumer has read it."""

    def __init__(self, topic: str, partition: int) -> None:
        self.topic = topic
        self.partition = partition
        self.known: dict[int, bytes] = {}
        self.once: dict[bytes, int] = {}
        """The offset of each value of an idempotent producer. The log must contain each of these
        values only once."""

    def learn(self, offset: int, value: bytes) -> None:
        """Notes that the record at ``offset`` has ``value``. This record must never change."""
        known = self.known.setdefault(offset, value)
        assert known == value, f"{self.topic}-{self.partition} {offset}: {known!r}, then {value!r}"
        if value.startswith(b"once "):
            first = self.once.setdefault(value, offset)
            assert first == offset, f"{value!r} is at {first} and at {offset}"

    def check(self, files: SimulatedFiles) -> None:
        """Asserts that the log of a replica has all known records, and each producer's records in
        order."""
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
