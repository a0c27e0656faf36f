"""A cluster that is reset for each of many tests."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer

from musterd.testing import MusterCluster
from tests.held import Held
from tests.musterd.testing.clients import client, produce
from tests.waiting import until

WARM_UP, RESETS = 100, 1000


@pytest.mark.campaign
def test_cluster_resets_do_not_leak_files_threads_or_memory() -> None:
    def once(number: int) -> None:
        if number % 10 == 0:
            cluster.create_topic("orders")
            with cluster.kill(cluster.leader("orders")):
                produce(cluster, "orders", "one")
        cluster.reset()

    with MusterCluster() as cluster:
        for number in range(WARM_UP):
            once(number)
        before = Held(cluster.pid)
        for number in range(RESETS):
            once(number)

        def nothing_leaks() -> bool:
            once(0)  # A leak would grow further.
            Held(cluster.pid).check_not_above(before)
            return True

        until("the process holds as much as before", nothing_leaks)
        producer = Producer(client(cluster, "after"))
        producer.produce("orders", "two")
        assert producer.flush(30) == 0
