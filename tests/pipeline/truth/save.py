"""Runs the scenario on Apache Kafka and keeps its files as tests/data/kafka-groups.

PYTHONPATH=. python -m tests.pipeline.truth.save
"""

from __future__ import annotations

import io
import tarfile
import tempfile
from pathlib import Path

from tests.brokers import KafkaBroker, running
from tests.pipeline.small_logs import KAFKA_DIRS
from tests.pipeline.truth.scenario import KAFKA, KAFKA_SETTINGS, TOPICS, play

KEPT = (".log", "partition.metadata", "meta.properties")
FOLDER = KAFKA_DIRS.parent / "kafka-groups"


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        data = Path(scratch) / "data"
        broker = KafkaBroker(data, KAFKA_SETTINGS)
        with running(broker):
            world = play(broker, KAFKA)
            broker.stop()
        FOLDER.mkdir(exist_ok=True)
        world.told.write(FOLDER / "told.json")
        with tarfile.open(FOLDER / "data.tar.xz", "w:xz") as archive:
            for file in sorted(data.rglob("*")):
                topic = file.parent.name.rpartition("-")[0]
                ours = topic in (*TOPICS, "__consumer_offsets") or file.parent == data
                if ours and file.name.endswith(KEPT):
                    entry = tarfile.TarInfo(str(file.relative_to(data)))
                    entry.size, entry.mode = file.stat().st_size, 0o644
                    archive.addfile(entry, io.BytesIO(file.read_bytes()))


if __name__ == "__main__":
    main()
