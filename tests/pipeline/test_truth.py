"""A history of groups of every kind, on Apache Kafka and on Muster, beside what clients were told.

`truth/scenario.py` has the groups, `truth/told.py` the log of what their clients were told.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.brokers import Broker, KafkaBroker, running
from tests.pipeline.truth import scenario
from tests.pipeline.truth.scenario import World, play

pytestmark = pytest.mark.pipeline


@pytest.fixture(scope="module", params=["kafka", "muster"])
def world(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[World]:
    """A broker with its history; members live on and a transaction is open meanwhile."""
    data = tmp_path_factory.mktemp(request.param) / "data"
    if request.param == "kafka":
        broker: Broker = KafkaBroker(data, scenario.KAFKA_SETTINGS)
        lives = scenario.KAFKA
    else:
        broker = Broker(data, scenario.SETTINGS)
        lives = scenario.MUSTER
    with running(broker):
        made = play(broker, lives)
        yield made
        made.close()


def test_the_log_of_what_clients_were_told_ends_as_the_broker_does(world: World) -> None:
    """The log's own rules for transactions give what the broker answers to OffsetFetch."""
    ends: dict[str, dict[str, int]] = {group: {} for group in world.told.committed}
    for (group, topic, partition), commits in world.told.held().items():
        if commits[-1].offset is not None:
            ends.setdefault(group, {})[f"{topic}:{partition}"] = commits[-1].offset
    assert ends == world.told.committed
