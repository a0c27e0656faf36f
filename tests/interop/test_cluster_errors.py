"""The errors of clusters of Apache Kafka 3.9.2 and of Muster, cell by cell."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster_errors.asking import DIFFERS, ask_all, written
from tests.interop.zookeeper_cluster import KAFKA, MUSTER, running

pytestmark = pytest.mark.interop


@pytest.mark.parametrize("kind", [KAFKA, MUSTER])
def test_whoever_is_asked_gives_the_same_error(kind: str, tmp_path: Path) -> None:
    """What Kafka answers is what is written down; Muster answers the same."""
    with running(tmp_path, dict.fromkeys((1, 2, 3), kind), {"min.insync.replicas": "1"}) as cluster:
        found = ask_all(cluster.ports)
    expected = written()
    differ = {
        name: (found[name], expected[name]) for name in found if found[name] != expected[name]
    }
    assert set(differ) == (set() if kind == KAFKA else set(DIFFERS)), differ
