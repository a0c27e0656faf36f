"""Tests that transactions are unavailable below inter.broker.protocol.version 0.11, as in Kafka
3.9.2."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from broker.apis.tables.cluster import SERVED_IN_CLUSTER
from broker.apis.tables.without_transactions import SERVED_WITHOUT_TRANSACTIONS
from protocol.errors import NONE, UNSUPPORTED_VERSION
from protocol.messages import BY_NAME
from protocol.schema import ZERO_UUID
from tests.broker.cluster.members import members
from tests.broker.serving import asked

OF_PRODUCER = {"transactional_id": "x", "producer_id": 1, "producer_epoch": 0}
TOPIC = {"name": "t", "partitions": [0, 1]}
ERRORS = [
    {"partition_index": 0, "partition_error_code": UNSUPPORTED_VERSION},
    {"partition_index": 1, "partition_error_code": UNSUPPORTED_VERSION},
]
REFUSED: list[tuple[str, int, dict[str, Any], dict[str, Any]]] = [
    (
        "AddPartitionsToTxn",
        3,
        {
            **{f"v3_and_below_{key}": value for key, value in OF_PRODUCER.items()},
            "v3_and_below_topics": [TOPIC],
        },
        {"results_by_topic_v3_and_below": [{"name": "t", "results_by_partition": ERRORS}]},
    ),
    (
        "AddPartitionsToTxn",
        4,
        {"transactions": [{**OF_PRODUCER, "verify_only": True, "topics": [TOPIC]}]},
        {"error_code": UNSUPPORTED_VERSION},
    ),
    ("AddOffsetsToTxn", 3, {**OF_PRODUCER, "group_id": "g"}, {"error_code": UNSUPPORTED_VERSION}),
    ("EndTxn", 5, {**OF_PRODUCER, "committed": True}, {"error_code": UNSUPPORTED_VERSION}),
    (
        "TxnOffsetCommit",
        3,
        {
            **OF_PRODUCER,
            "group_id": "g",
            "topics": [
                {
                    "name": "t",
                    "partitions": [
                        {"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}
                    ],
                }
            ],
        },
        {
            "topics": [
                {
                    "topic_id": ZERO_UUID,
                    "name": "t",
                    "partitions": [{"partition_index": 0, "error_code": UNSUPPORTED_VERSION}],
                }
            ]
        },
    ),
    (
        "WriteTxnMarkers",
        1,
        {
            "markers": [
                {
                    "producer_id": 1,
                    "producer_epoch": 0,
                    "transaction_result": True,
                    "coordinator_epoch": 0,
                    "topics": [{"name": "t", "partition_indexes": [0]}],
                }
            ]
        },
        {
            "markers": [
                {
                    "producer_id": 1,
                    "topics": [
                        {
                            "name": "t",
                            "partitions": [
                                {"partition_index": 0, "error_code": UNSUPPORTED_VERSION}
                            ],
                        }
                    ],
                }
            ]
        },
    ),
]
"""API, version and body of each request, and the expected response fields."""
NAMES = {name for name, *_ in REFUSED}


@pytest.mark.parametrize(("version", "has_them"), [("0.10.2", False), ("0.11.0", True)])
async def test_transaction_apis_are_offered_from_protocol_version_0_11(
    tmp_path: Path, version: str, has_them: bool
) -> None:
    settings = {
        "inter.broker.protocol.version": version,
        "log.message.format.version": "0.10.2",
    }
    async with members(tmp_path, settings) as there:
        broker = there.brokers[1]
        offered = await asked(broker, lambda wire: wire.call("ApiVersions", 3, SOFTWARE))
        keys = {each["api_key"] for each in offered["api_keys"]}
        assert {name for name in NAMES if BY_NAME[name].key in keys} == (
            NAMES if has_them else set()
        )
        assert BY_NAME["InitProducerId"].key in keys, "Kafka offers it there too"
        if has_them:
            return
        for name, its_version, value, said in REFUSED:
            answer = await asked(
                broker, lambda wire, n=name, v=its_version, a=value: wire.call(n, v, a)
            )
            assert answer.items() >= said.items(), name
        made = {"transactional_id": None, "transaction_timeout_ms": 1000}
        answer = await asked(broker, lambda wire: wire.call("InitProducerId", 1, made))
        assert answer["error_code"] == NONE


SOFTWARE = {"client_software_name": "tester", "client_software_version": "1"}


def test_other_apis_are_served_when_transactions_are_not_offered() -> None:
    assert [*SERVED_WITHOUT_TRANSACTIONS] == [*SERVED_IN_CLUSTER]
    changed = {
        row.api.name
        for key, row in SERVED_WITHOUT_TRANSACTIONS.items()
        if SERVED_IN_CLUSTER[key] is not row
    }
    assert changed == NAMES
