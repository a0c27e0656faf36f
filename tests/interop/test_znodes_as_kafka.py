"""What a cluster of Musters leaves in ZooKeeper is what Apache Kafka leaves after the same history.

What Kafka 3.9.2 and 0.10.2.2 leave is recorded in tests/data/znodes. `make soak` plays the history
on both again; MUSTER_GOLDEN=write records it anew.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.interop.cluster_history import Tree, play
from tests.interop.zookeeper_cluster import BESIDE_OLD_KAFKA, KAFKA, MUSTER, OLD_KAFKA, running

pytestmark = pytest.mark.interop

RECORDED = Path(__file__).parent.parent / "data" / "znodes"
BROKERS = (1, 2, 3)


def recorded(version: str) -> Tree:
    tree: Tree = json.loads((RECORDED / f"kafka-{version}.json").read_text())
    return tree


@pytest.mark.timeout(300)
def test_the_same_paths_with_the_same_json(tmp_path: Path) -> None:
    with running(tmp_path, dict.fromkeys(BROKERS, MUSTER)) as cluster:
        found = play(cluster)
    assert found == recorded("3.9.2")


@pytest.mark.timeout(300)
def test_beside_an_old_kafka_all_is_there_that_it_reads(tmp_path: Path) -> None:
    """Nodes are of later versions, as those of a Kafka 3.9: they have what its nodes have."""
    with running(tmp_path, dict.fromkeys(BROKERS, MUSTER), BESIDE_OLD_KAFKA) as cluster:
        found = play(cluster)
    for path, said in recorded("0.10.2.2").items():
        assert path in found
        assert _without_more(found[path], said) == said, path


def _without_more(found: Any, said: Any) -> Any:
    """What was found under the names of ``said``; versions may be later."""
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
def test_what_is_recorded_is_what_kafka_leaves(kind: str, version: str, tmp_path: Path) -> None:
    with running(tmp_path, dict.fromkeys(BROKERS, kind)) as cluster:
        found = play(cluster)
    if os.environ.get("MUSTER_GOLDEN") == "write":
        text = json.dumps(found, indent=1, sort_keys=True)
        (RECORDED / f"kafka-{version}.json").write_text(f"{text}\n")
    assert found == recorded(version)
