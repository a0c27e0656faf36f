"""Whoever of a cluster is asked, the error is that of Apache Kafka 3.9.2.

The table is tests/cluster_errors/; what Kafka answers is in tests/data/cluster/, which
tests/interop/test_cluster_errors.py compares with a real one.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.broker.cluster.members import members
from tests.cluster_errors.asking import CELLS, DIFFERS, ask_all, written


def test_each_cell_has_its_own_name_and_its_answer() -> None:
    names = [cell.name for cell in CELLS]
    assert len(set(names)) == len(names)
    assert set(names) == set(written())
    assert set(DIFFERS) <= set(names)


async def test_each_broker_gives_the_error_of_kafka(tmp_path: Path) -> None:
    async with members(tmp_path, {"group.min.session.timeout.ms": "6000"}) as cluster:
        ports = {
            node_id: broker.sockets.addresses()[0][1] for node_id, broker in cluster.brokers.items()
        }
        found = await asyncio.get_running_loop().run_in_executor(None, ask_all, ports)
    kafka = written()
    differ = {name: (found[name], kafka[name]) for name in found if found[name] != kafka[name]}
    assert {name: codes for name, codes in differ.items() if name not in DIFFERS} == {}
    assert set(differ) == set(DIFFERS), "no longer another answer"
