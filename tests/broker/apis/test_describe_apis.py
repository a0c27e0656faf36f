from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from broker.apis.shared.authorization import NOT_ASKED
from protocol.errors import (
    INVALID_REQUEST,
    INVALID_TOPIC_EXCEPTION,
    MISMATCHED_ENDPOINT_TYPE,
    NONE,
    UNKNOWN_TOPIC_OR_PARTITION,
    UNSUPPORTED_ENDPOINT_TYPE,
)
from tests.broker.topic_calls import create_topic, metadata
from tests.brokers import Broker
from tests.wire import Wire

CLUSTER_OPERATIONS = 0b1_1111_1010_0000
"""The bits of all operations that an ACL on a cluster can allow."""

TOPIC, BROKER, BROKER_LOGGER = 2, 4, 8
TOPIC_SOURCE, BROKER_SOURCE, DEFAULT_SOURCE = 1, 4, 5


def describe(
    wire: Wire, kind: int, name: str, version: int = 4, keys: list[str] | None = None, **fields: Any
) -> dict[str, Any]:
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": keys}
    answer = wire.call("DescribeConfigs", version, {"resources": [resource], **fields})
    result: dict[str, Any] = answer["results"][0]
    return result


def by_name(result: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {entry["name"]: entry for entry in result["configs"]}


@pytest.mark.parametrize("version", range(5))
def test_describe_configs_returns_topic_settings_in_every_version(
    wire: Wire, name: str, version: int
) -> None:
    create_topic(wire, name, configs={"retention.ms": "5000"})

    told = by_name(describe(wire, TOPIC, name, version))

    own, default = told["retention.ms"], told["segment.bytes"]
    assert (own["value"], default["value"]) == ("5000", "1073741824")
    if version == 0:
        assert (own["is_default"], default["is_default"]) == (False, True)
    else:
        assert (own["config_source"], default["config_source"]) == (TOPIC_SOURCE, DEFAULT_SOURCE)
    if version >= 3:
        assert own["config_type"] == 5
    assert len(told) == 36


def test_describe_configs_returns_only_requested_settings(wire: Wire, name: str) -> None:
    create_topic(wire, name)

    told = by_name(describe(wire, TOPIC, name, keys=["segment.ms", "no.such"]))

    assert list(told) == ["segment.ms"]


@pytest.mark.parametrize("version", [1, 3, 4])
def test_describe_configs_returns_synonyms_in_order_of_precedence(
    wire: Wire, name: str, version: int
) -> None:
    create_topic(wire, name, configs={"max.message.bytes": "5000"})

    entry = by_name(describe(wire, TOPIC, name, version, include_synonyms=True))[
        "max.message.bytes"
    ]

    assert [(s["name"], s["value"], s["source"]) for s in entry["synonyms"]] == [
        ("max.message.bytes", "5000", TOPIC_SOURCE),
        ("message.max.bytes", "1048588", DEFAULT_SOURCE),
    ]


def test_static_broker_setting_applies_to_topics_and_is_returned_as_a_synonym(
    brokers: Callable[..., Broker], name: str
) -> None:
    with Wire(brokers({"log.retention.minutes": "2"}).port) as wire:
        create_topic(wire, name)

        entry = by_name(describe(wire, TOPIC, name, include_synonyms=True))["retention.ms"]

        assert (entry["value"], entry["config_source"]) == ("120000", BROKER_SOURCE)
        assert entry["synonyms"][0]["name"] == "log.retention.minutes"


def test_describe_configs_returns_documentation_on_request(wire: Wire, name: str) -> None:
    create_topic(wire, name)

    told = by_name(describe(wire, TOPIC, name, include_documentation=True))
    silent = by_name(describe(wire, TOPIC, name))

    assert told["retention.ms"]["documentation"].startswith("How long records are kept")
    assert silent["retention.ms"]["documentation"] is None


@pytest.mark.parametrize("version", range(5))
def test_describe_configs_returns_broker_settings_in_every_version(
    wire: Wire, version: int
) -> None:
    told = by_name(describe(wire, BROKER, "1", version))

    assert told["group.initial.rebalance.delay.ms"]["value"] == "0"
    assert told["num.partitions"]["value"] == "1"
    assert told["sasl.jaas.config"]["is_sensitive"]
    assert told["sasl.jaas.config"]["value"] is None
    assert told["num.partitions"]["read_only"]
    assert not told["log.retention.ms"]["read_only"]
    if version >= 1:
        assert told["group.initial.rebalance.delay.ms"]["config_source"] == BROKER_SOURCE


@pytest.mark.parametrize(
    ("kind", "resource", "error_code"),
    [
        (TOPIC, "not-there", UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "not legal", INVALID_TOPIC_EXCEPTION),
        (BROKER, "2", INVALID_REQUEST),
        (BROKER, "one", INVALID_REQUEST),
        (BROKER_LOGGER, "1", INVALID_REQUEST),
        (77, "x", INVALID_REQUEST),
    ],
)
def test_describe_configs_of_unknown_or_unsupported_resource_is_an_error(
    wire: Wire, kind: int, resource: str, error_code: int
) -> None:
    result = describe(wire, kind, resource)

    assert (result["error_code"], result["configs"]) == (error_code, [])
    assert result["error_message"]


def test_new_broker_has_no_cluster_default_settings(wire: Wire) -> None:
    result = describe(wire, BROKER, "")

    assert (result["error_code"], result["configs"]) == (NONE, [])


# -- DescribeCluster


@pytest.mark.parametrize("version", range(3))
@pytest.mark.parametrize("wanted", [True, False])
def test_describe_cluster_returns_the_broker_in_every_version(
    wire: Wire, broker: Broker, version: int, wanted: bool
) -> None:
    answer = wire.call(
        "DescribeCluster", version, {"include_cluster_authorized_operations": wanted}
    )

    (node,) = answer["brokers"]
    assert (node["host"], node["port"]) == ("127.0.0.1", broker.port)
    assert answer["controller_id"] == node["broker_id"]
    assert answer["cluster_id"] == metadata(wire)["cluster_id"]
    expected = CLUSTER_OPERATIONS if wanted else NOT_ASKED
    assert answer["cluster_authorized_operations"] == expected


@pytest.mark.parametrize(
    ("kind", "error_code"), [(2, MISMATCHED_ENDPOINT_TYPE), (9, UNSUPPORTED_ENDPOINT_TYPE)]
)
def test_describe_cluster_is_refused_unless_its_endpoint_type_is_broker(
    wire: Wire, kind: int, error_code: int
) -> None:
    answer = wire.call("DescribeCluster", 1, {"endpoint_type": kind})

    assert (answer["error_code"], answer["brokers"]) == (error_code, [])
