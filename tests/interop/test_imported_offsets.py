"""Real consumers continue at imported offsets."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import java
from tests.brokers import Broker
from tests.cli.running import run
from tests.interop.cluster import Cluster, Feed

pytestmark = pytest.mark.interop

RECORDS = 8
TIMEOUT_MS = 20_000
"""The time in ms for which a consumer waits for its next record. Only a consumer that fails waits
for so long."""


@pytest.mark.parametrize("kafka", [java.KAFKA_NEW, java.KAFKA_LAST_TO_SERVE_OLD_CLIENTS])
def test_java_consumer_continues_at_an_offset_imported_from_a_csv_file(
    broker: Broker, kafka: str, name: str, tmp_path: Path
) -> None:
    """The file has leader epoch 37 of another cluster. If the import kept this epoch, the consumer
    would wait forever for metadata with this epoch."""
    Cluster(broker.bootstrap).create_topic(name, 1)
    feed = Feed(broker.bootstrap, name, 1)
    sent = feed.send(RECORDS)
    exported = tmp_path / "elsewhere.csv"
    exported.write_text(
        f"group,topic,partition,offset,leader_epoch,metadata\n{name},{name},0,3,37,\n"
    )
    imported = run("offsets", "import", str(exported), "--execute", "-b", broker.bootstrap)
    assert imported.code == 0, imported.err

    done = java.run(
        kafka,
        "org.apache.kafka.tools.consumer.ConsoleConsumer",
        "--bootstrap-server",
        broker.bootstrap,
        "--topic",
        name,
        "--group",
        name,
        "--max-messages",
        str(RECORDS - 3),
        "--timeout-ms",
        str(TIMEOUT_MS),
    )

    assert done.stdout.splitlines() == sent[3:], done.stderr
