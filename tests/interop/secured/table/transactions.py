"""Requests about transactions."""

from __future__ import annotations

from tests.interop.secured.matrix import OWN, Fact, Request

PRODUCER = Fact(f"producer of {OWN}")
TX = f"WRITE TRANSACTIONAL_ID {OWN}"
BOTH = ("open", "shut")
OLD_PARTITIONS = {
    "v3_and_below_transactional_id": OWN,
    "v3_and_below_producer_id": PRODUCER,
    "v3_and_below_producer_epoch": 0,
}
BY_NAME = {"transactional_id": OWN, "producer_id": PRODUCER, "producer_epoch": 0}

REQUESTS = [
    Request(
        "begin",
        "InitProducerId",
        4,
        {
            "transactional_id": f"{OWN}-new",
            "transaction_timeout_ms": 60_000,
        },
        {
            "": ":53",
            f"WRITE TRANSACTIONAL_ID {OWN}-new": ":0",
            f"DESCRIBE TRANSACTIONAL_ID {OWN}-new": ":53",
            f"ALL TRANSACTIONAL_ID {OWN}*": ":0",
            "IDEMPOTENT_WRITE CLUSTER; WRITE TOPIC *": ":53",
        },
    ),
    Request(
        "an idempotent producer",
        "InitProducerId",
        4,
        {
            "transactional_id": None,
            "transaction_timeout_ms": 60_000,
        },
        {
            "": ":31",
            "IDEMPOTENT_WRITE CLUSTER": ":0",
            "WRITE TOPIC open": ":0",
            "WRITE TOPIC something-that-is-not-there": ":0",
            "WRITE TOPIC op*": ":0",
            "ALL TOPIC open": ":0",
            "READ TOPIC open": ":31",
            "WRITE TOPIC open; deny WRITE TOPIC *": ":31",
            "WRITE TOPIC open; deny WRITE TOPIC open": ":31",
            "WRITE TOPIC op*; deny WRITE TOPIC open": ":0",
            "WRITE TOPIC open; deny WRITE TOPIC op*": ":31",
            "WRITE TOPIC open@10.1.1.1": ":31",
        },
    ),
    Request(
        "partitions of a transaction",
        "AddPartitionsToTxn",
        3,
        {
            **OLD_PARTITIONS,
            "v3_and_below_topics": [{"name": t, "partitions": [0]} for t in BOTH],
        },
        {
            "": ":0 open 0:53 shut 0:53",
            TX: ":0 open 0:29 shut 0:29",
            f"{TX}; WRITE TOPIC open": ":0 open 0:55 shut 0:29",
            f"{TX}; WRITE TOPIC *": ":0 open 0:0 shut 0:0",
        },
        transaction=OWN,
    ),
    Request(
        "partitions that are not there",
        "AddPartitionsToTxn",
        3,
        {
            **OLD_PARTITIONS,
            "v3_and_below_topics": [{"name": t, "partitions": [0]} for t in ("open", "absent")],
        },
        {
            f"{TX}; WRITE TOPIC open": ":0 absent 0:29 open 0:55",
            f"{TX}; WRITE TOPIC *": ":0 absent 0:3 open 0:55",
        },
        transaction=OWN,
    ),
    Request(
        "partitions, from broker to broker",
        "AddPartitionsToTxn",
        4,
        {
            "transactions": [
                {
                    **BY_NAME,
                    "verify_only": False,
                    "topics": [{"name": t, "partitions": [0]} for t in BOTH],
                }
            ]
        },
        {
            "": ":31",
            f"{TX}; WRITE TOPIC *": ":31",
            "CLUSTER_ACTION CLUSTER": ":0 own open 0:0 shut 0:0",
        },
        transaction=OWN,
    ),
    Request(
        "offsets of a transaction",
        "AddOffsetsToTxn",
        3,
        {**BY_NAME, "group_id": OWN},
        {
            "": ":53",
            TX: ":30",
            f"READ GROUP {OWN}": ":53",
            f"{TX}; READ GROUP {OWN}": ":0",
        },
        transaction=OWN,
    ),
    Request(
        "the end",
        "EndTxn",
        3,
        {**BY_NAME, "committed": True},
        {
            "": ":53",
            TX: ":48",
            f"DESCRIBE TRANSACTIONAL_ID {OWN}": ":53",
        },
        transaction=OWN,
    ),
    Request(
        "offsets committed",
        "TxnOffsetCommit",
        3,
        {
            **BY_NAME,
            "group_id": OWN,
            "topics": [
                {"name": t, "partitions": [{"partition_index": 0, "committed_offset": 1}]}
                for t in (*BOTH, "absent")
            ],
        },
        {
            "": "absent 0:53 open 0:53 shut 0:53",
            TX: "absent 0:30 open 0:30 shut 0:30",
            f"{TX}; READ GROUP {OWN}": "absent 0:29 open 0:29 shut 0:29",
            f"{TX}; READ GROUP {OWN}; READ TOPIC open": "absent 0:29 open 0:48 shut 0:29",
            f"READ GROUP {OWN}; READ TOPIC *": "absent 0:53 open 0:53 shut 0:53",
        },
        transaction=OWN,
    ),
    Request(
        "markers",
        "WriteTxnMarkers",
        1,
        {
            "markers": [
                {
                    "producer_id": 4711,
                    "producer_epoch": 0,
                    "transaction_result": True,
                    "coordinator_epoch": 0,
                    "topics": [{"name": t, "partition_indexes": [0]} for t in BOTH],
                }
            ]
        },
        {
            "": "open 0:31 shut 0:31",
            "WRITE TOPIC *": "open 0:31 shut 0:31",
            "CLUSTER_ACTION CLUSTER": "open 0:0 shut 0:0",
            "ALTER CLUSTER": "open 0:0 shut 0:0",
        },
    ),
    Request(
        "transactions described",
        "DescribeTransactions",
        0,
        {
            "transactional_ids": ["pay", "work", "absent"],
        },
        {
            "": "absent:53 pay:53 work:53",
            "DESCRIBE TRANSACTIONAL_ID pay": "pay:0 absent:53 work:53",
            "WRITE TRANSACTIONAL_ID *": "pay:0 work:0 absent:105",
        },
    ),
    Request(
        "transactions listed",
        "ListTransactions",
        0,
        {
            "state_filters": [],
            "producer_id_filters": [],
        },
        {
            "": ":0",
            "DESCRIBE TRANSACTIONAL_ID pay": ":0 pay",
            "WRITE TRANSACTIONAL_ID wo*": ":0 work",
        },
    ),
]
