"""Archives of the classes that Java programs of the tests load (AppCDS), made before the tests.

A start costs 1.7 s of CPU instead of 3.4 s for Kafka 4.3.1, 2.5 s instead of 3.4 s for 3.9.2.
"""

from __future__ import annotations

import tempfile
from contextlib import suppress
from pathlib import Path

from tests import java
from tests.brokers import KafkaBroker

KAFKA = "kafka.Kafka"
CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
NOBODY = ("--bootstrap-server", "127.0.0.1:1", "--topic", "none", "--timeout-ms", "1")


def make_all() -> None:
    """Runs each program that many tests start once, if its archive does not exist."""
    with tempfile.TemporaryDirectory() as folder:
        for release in (java.KAFKA_NEW, java.KAFKA_LAST_TO_SERVE_OLD_CLIENTS):
            # # On a machine so busy that Kafka does not stop in time, no archive is made.
            with suppress(AssertionError):
                _archive_kafka(release, Path(folder) / release)
    if not java.archived(java.KAFKA_NEW, CONSOLE_CONSUMER):
        java.run(java.KAFKA_NEW, CONSOLE_CONSUMER, *NOBODY, own_jvm=True)


def _archive_kafka(release: str, folder: Path) -> None:
    if java.archived(release, KAFKA):
        return
    broker = KafkaBroker(folder / "data", version=release)
    with java.archiving(release, KAFKA):
        broker.start()
        broker.stop()


if __name__ == "__main__":
    make_all()
