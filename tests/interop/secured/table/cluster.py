"""Requests of administrators about replicas and their reassignment."""

from __future__ import annotations

from tests.interop.secured.matrix import Request

REQUESTS = [
    Request(
        "moves begun",
        "AlterPartitionReassignments",
        0,
        {
            "timeout_ms": 20_000,
            "topics": [
                {
                    "name": "open",
                    "partitions": [
                        {"partition_index": 0, "replicas": [1]},
                        {"partition_index": 1, "replicas": None},
                    ],
                },
                {"name": "absent", "partitions": [{"partition_index": 0, "replicas": [1]}]},
            ],
        },
        {
            "": ":31 absent 0:31 open 0:31 1:31",
            "ALTER CLUSTER": ":0 absent 0:3 open 0:0 1:85",
            "DESCRIBE CLUSTER; CLUSTER_ACTION CLUSTER; ALTER TOPIC *": ":31 absent 0:31 open 0:31 1:31",
            "ALL CLUSTER; deny ALTER CLUSTER": ":31 absent 0:31 open 0:31 1:31",
        },
    ),
    Request(
        "another directory",
        "AlterReplicaLogDirs",
        2,
        {
            "dirs": [
                {
                    "path": "/nowhere",
                    "topics": [
                        {"name": "open", "partitions": [0, 1]},
                        {"name": "absent", "partitions": [0]},
                    ],
                }
            ]
        },
        {
            "": "absent 0:31 open 0:31 1:31",
            "ALTER CLUSTER": "absent 0:57 open 0:57 1:57",
            "DESCRIBE CLUSTER; CLUSTER_ACTION CLUSTER; ALTER TOPIC *": "absent 0:31 open 0:31 1:31",
            "ALL CLUSTER; deny ALTER CLUSTER": "absent 0:31 open 0:31 1:31",
        },
    ),
]
