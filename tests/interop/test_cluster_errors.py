"""A cluster of Muster returns the same error codes as a cluster of Apache Kafka 3.9.2, for each
request in tests/cluster_errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster_errors.asking import (
    CELLS,
    DIFFERS,
    LEADERLESS,
    NOBODY,
    WITHOUT_CONTROLLER,
    ask,
    make_lost,
    prepared,
    until_lost,
    until_nobody_is_controller,
    written,
)
from tests.interop.zookeeper_cluster import KAFKA, MUSTER, running

pytestmark = pytest.mark.interop


@pytest.mark.parametrize("kind", [KAFKA, MUSTER])
def test_error_of_each_request_equals_the_recorded_error_of_kafka(
    kind: str, tmp_path: Path
) -> None:
    with running(tmp_path, dict.fromkeys((1, 2, 3), kind), {"min.insync.replicas": "1"}) as there:
        cluster = prepared(there.ports)
        found = ask(cluster, CELLS)
        make_lost(cluster)
        there.kill(3)
        until_lost(cluster)
        found |= ask(cluster, LEADERLESS)
        change = there.nodes.transaction()
        change.delete("/controller")
        change.create("/controller", NOBODY, ephemeral=True)
        change.commit()
        until_nobody_is_controller(cluster)
        found |= ask(cluster, WITHOUT_CONTROLLER)
    expected = written()
    differ = {
        name: (found[name], expected[name]) for name in found if found[name] != expected[name]
    }
    assert set(differ) == (set() if kind == KAFKA else set(DIFFERS)), differ
