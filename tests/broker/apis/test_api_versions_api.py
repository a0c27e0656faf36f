"""Tests that ApiVersions v5 refuses a client that addresses another cluster or node (KIP-1242)."""

from __future__ import annotations

import pytest

from protocol.errors import INVALID_REQUEST, NONE, REBOOTSTRAP_REQUIRED
from tests.brokers import Broker
from tests.wire import Wire

SOFTWARE = {"client_software_name": "x", "client_software_version": "1"}
OURS = "ours"
ANY = -1


@pytest.mark.parametrize(
    ("cluster_id", "node", "error_code"),
    [
        (OURS, 0, NONE),
        (None, ANY, NONE),
        ("other", 0, REBOOTSTRAP_REQUIRED),
        ("", 0, REBOOTSTRAP_REQUIRED),
        (OURS, 1, REBOOTSTRAP_REQUIRED),
        ("other", 1, REBOOTSTRAP_REQUIRED),
        (None, 0, INVALID_REQUEST),
        (None, 1, INVALID_REQUEST),
        (OURS, ANY, INVALID_REQUEST),
        ("other", ANY, INVALID_REQUEST),
    ],
)
def test_api_versions_v5_refuses_a_client_of_another_cluster_or_node(
    wire: Wire, cluster_id: str | None, node: int, error_code: int
) -> None:
    """The client expects the broker id of the tested broker plus ``node``. Kafka 4.4.0 returns the
    same error codes."""
    cluster = wire.call("DescribeCluster", 1)
    node_id = ANY if node == ANY else cluster["brokers"][0]["broker_id"] + node
    named = {"cluster_id": cluster["cluster_id"] if cluster_id == OURS else cluster_id}

    answer = wire.call("ApiVersions", 5, {**SOFTWARE, **named, "node_id": node_id})

    assert answer["error_code"] == error_code
    assert bool(answer["api_keys"]) == (error_code == NONE)


def test_connection_stays_open_after_api_versions_for_another_cluster_or_node(
    broker: Broker,
) -> None:
    with Wire(broker.port) as wire:
        misrouted = {**SOFTWARE, "cluster_id": "other", "node_id": 1}
        assert wire.call("ApiVersions", 5, misrouted)["error_code"] == REBOOTSTRAP_REQUIRED
        assert wire.call("ApiVersions", 5, SOFTWARE)["error_code"] == NONE
