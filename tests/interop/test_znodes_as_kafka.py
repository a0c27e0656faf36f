"""After the same changes, a cluster of Muster has the same ZooKeeper nodes as a cluster of Apache
Kafka.

The nodes of Kafka 3.9.2 and 0.10.2.2 are recorded in tests/data/znodes. `make soak` repeats the
changes on both versions. MUSTER_GOLDEN=write records the nodes again.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.interop.cluster_history import Tree, play
from tests.interop.zookeeper_cluster import BESIDE_OLD_KAFKA, KAFKA, MUSTER, OLD_KAFKA, running

pytestmark = [pytest.mark.interop, pytest.mark.proves("clusters 30")]

RECORDED = Path(__file__).parent.parent / "data" / "znodes"
BROKERS = (1, 2, 3)


def recorded(version: str) -> Tree:
    tree: Tree = json.loads((RECORDED / f"kafka-{version}.json").read_text())
    return tree


@pytest.mark.timeout(300)
def test_zookeeper_nodes_equal_those_of_kafka_3_9_2(tmp_path: Path) -> None:
    with running(tmp_path, dict.fromkeys(BROKERS, MUSTER)) as cluster:
        found = play(cluster)
    for broker_id in BROKERS:  # Kafka 3.9 has no features
        registration = found[f"/brokers/ids/{broker_id} (ephemeral)"]
        assert registration["features"] == {
            "group.version": {"min_version": 1, "max_version": 1},
            "share.version": {"min_version": 1, "max_version": 1},
            "streams.version": {"min_version": 1, "max_version": 1},
        }
        registration["features"] = {}
    assert found == recorded("3.9.2")


@pytest.mark.timeout(300)
def test_zookeeper_has_all_nodes_that_kafka_0_10_2_2_reads(tmp_path: Path) -> None:
    """The nodes have the format versions of Kafka 3.9, and contain all fields that the nodes of
    Kafka 0.10.2.2 contain."""
    with running(tmp_path, dict.fromkeys(BROKERS, MUSTER), BESIDE_OLD_KAFKA) as cluster:
        found = play(cluster)
    for path, said in recorded("0.10.2.2").items():
        assert path in found
        assert _without_more(found[path], said) == said, path


def _without_more(found: Any, said: Any) -> Any:
    """Returns the fields of ``found`` (the content of a node) that ``said`` (the expected content)
    also has. A higher version than expected is replaced by the expected version."""
    if not isinstance(said, dict) or not isinstance(found, dict):
        return found
    kept = {key: value for key, value in found.items() if key in said}
    if "version" in kept and isinstance(said["version"], int):
        assert kept["version"] >= said["version"]
        kept["version"] = said["version"]
    return kept


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("kind", "version"), [(KAFKA, "3.9.2"), (OLD_KAFKA, "0.10.2.2")], ids=["3.9.2", "0.10.2.2"]
)
def test_recorded_zookeeper_nodes_equal_those_of_kafka(
    kind: str, version: str, tmp_path: Path
) -> None:
    """The test makes the recorded changes on Kafka again, and compares the resulting nodes with the
    recorded nodes."""
    with running(tmp_path, dict.fromkeys(BROKERS, kind)) as cluster:
        found = play(cluster)
    if os.environ.get("MUSTER_GOLDEN") == "write":
        text = json.dumps(found, indent=1, sort_keys=True)
        (RECORDED / f"kafka-{version}.json").write_text(f"{text}\n")
    assert found == recorded(version)
