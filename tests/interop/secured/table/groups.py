"""Requests about groups and their offsets."""

from __future__ import annotations

from typing import Any

from tests.interop.secured.matrix import OWN, Request, Value, id_of

BOTH = ("open", "shut")


def commit(*topics: str, by_id: bool = False, group: str = OWN) -> Value:
    """Returns an OffsetCommit request without a member, for the first partition of each topic."""
    asked = [
        {
            **({"topic_id": id_of(topic)} if by_id else {"name": topic}),
            "partitions": [{"partition_index": 0, "committed_offset": 3}],
        }
        for topic in topics
    ]
    return {"group_id": group, "topics": asked}


def offsets(*topics: str) -> list[Value]:
    """Returns the topics field of an OffsetFetch request, with the first partition of each topic."""
    return [{"name": topic, "partition_indexes": [0]} for topic in topics]


def join(group: str, version: int) -> Value:
    """Returns a JoinGroup request of a new static member, because a dynamic member would need two
    requests."""
    fields: dict[str, Any] = {"group_instance_id": "static"} if version >= 5 else {}
    return {
        "group_id": group, "session_timeout_ms": 10_000, "rebalance_timeout_ms": 10_000,
        "member_id": "", "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b"\0\0\0\0\0\0\0\0"}], **fields,
    }  # fmt: skip


REQUESTS = [
    Request(
        "commit",
        "OffsetCommit",
        8,
        commit(*BOTH, "absent"),
        {
            "": "absent 0:30 open 0:30 shut 0:30",
            f"READ GROUP {OWN}": "absent 0:29 open 0:29 shut 0:29",
            f"READ GROUP {OWN}; READ TOPIC open": "absent 0:29 open 0:0 shut 0:29",
            f"READ GROUP {OWN}; READ TOPIC *": "absent 0:3 open 0:0 shut 0:0",
            "READ TOPIC *": "absent 0:30 open 0:30 shut 0:30",
            f"DESCRIBE GROUP {OWN}; READ TOPIC open": "absent 0:30 open 0:30 shut 0:30",
            f"READ GROUP *; READ TOPIC *; deny READ GROUP {OWN}": "absent 0:30 open 0:30 shut 0:30",
            "as admin": "absent 0:3 open 0:0 shut 0:0",
        },
    ),
    Request(
        "commit by id",
        "OffsetCommit",
        10,
        commit(*BOTH, "absent", by_id=True),
        {
            "": "<absent> 0:30 <open> 0:30 <shut> 0:30",
            f"READ GROUP {OWN}; READ TOPIC open": "<absent> 0:100 <open> 0:0 <shut> 0:29",
        },
    ),
    Request(
        "commit to a group without a name",
        "OffsetCommit",
        8,
        commit("open", group=""),
        {
            "": "open 0:30",
        },
    ),
    Request(
        "offsets",
        "OffsetFetch",
        5,
        {
            "group_id": "kept",
            "topics": offsets(*BOTH, "absent"),
        },
        {
            "": ":30",
            "DESCRIBE GROUP kept": ":0 absent 0:29 open 0:29 shut 0:29",
            "DESCRIBE GROUP kept; DESCRIBE TOPIC open": ":0 absent 0:29 open 0:0 shut 0:29",
            "READ GROUP ke*; READ TOPIC *": ":0 absent 0:0 open 0:0 shut 0:0",
        },
    ),
    Request(
        "offsets, as old clients",
        "OffsetFetch",
        1,
        {
            "group_id": "kept",
            "topics": offsets(*BOTH),
        },
        {
            "": ":0 open 0:30 shut 0:30",
            "DESCRIBE GROUP kept; DESCRIBE TOPIC open": ":0 open 0:0 shut 0:29",
        },
    ),
    Request(
        "all offsets",
        "OffsetFetch",
        7,
        {"group_id": "kept", "topics": None},
        {
            "": ":30",
            "DESCRIBE GROUP kept": ":0",
            "DESCRIBE GROUP kept; DESCRIBE TOPIC shut": ":0 shut 0:0",
        },
    ),
    Request(
        "offsets of groups",
        "OffsetFetch",
        8,
        {
            "groups": [
                {"group_id": "kept", "topics": offsets(*BOTH)},
                {"group_id": "other", "topics": None},
                {"group_id": "absent", "topics": None},
            ]
        },
        {
            "": ":0 absent:30 kept:30 other:30",
            "DESCRIBE GROUP kept; DESCRIBE TOPIC shut": ":0 absent:30 kept:0 open 0:29 shut 0:0 other:30",
            "DESCRIBE GROUP *; DESCRIBE TOPIC open": ":0 absent:0 kept:0 open 0:0 shut 0:29 other:0 open 0:0",
        },
    ),
    Request(
        "offsets by id",
        "OffsetFetch",
        10,
        {
            "groups": [
                {
                    "group_id": "kept",
                    "topics": [
                        {"topic_id": id_of(topic), "partition_indexes": [0]}
                        for topic in (*BOTH, "absent")
                    ],
                },
            ]
        },
        {
            "": ":0 kept:30",
            "DESCRIBE GROUP kept; DESCRIBE TOPIC open": ":0 kept:0 <absent> 0:100 <open> 0:0 <shut> 0:29",
        },
    ),
    Request(
        "find a coordinator",
        "FindCoordinator",
        3,
        {"key": "kept", "key_type": 0},
        {
            "": ":30",
            "DESCRIBE GROUP kept": ":0",
            "READ GROUP kept": ":0",
        },
    ),
    Request(
        "find coordinators",
        "FindCoordinator",
        4,
        {
            "coordinator_keys": ["kept", "other"],
            "key_type": 0,
        },
        {
            "": ":0 kept:30 other:30",
            "DESCRIBE GROUP kept": ":0 kept:0 other:30",
            "DELETE GROUP other": ":0 kept:30 other:0",
        },
    ),
    Request(
        "find the coordinator of a transaction",
        "FindCoordinator",
        4,
        {
            "coordinator_keys": ["pay", "work"],
            "key_type": 1,
        },
        {
            "": ":0 pay:53 work:53",
            "DESCRIBE TRANSACTIONAL_ID pay": ":0 pay:0 work:53",
            "WRITE TRANSACTIONAL_ID *; deny DESCRIBE TRANSACTIONAL_ID work": ":0 pay:0 work:53",
        },
    ),
    Request(
        "join",
        "JoinGroup",
        7,
        join(OWN, 7),
        {
            "": ":30",
            f"READ GROUP {OWN}": ":0",
            f"DESCRIBE GROUP {OWN}": ":30",
        },
    ),
    Request(
        "join, without an id",
        "JoinGroup",
        4,
        join(OWN, 4),
        {
            "": ":30",
            f"READ GROUP {OWN}": ":79",
        },
    ),
    Request(
        "join a group without a name",
        "JoinGroup",
        7,
        join("", 7),
        {
            "": ":30",
        },
    ),
    Request(
        "sync",
        "SyncGroup",
        5,
        {
            "group_id": "kept",
            "generation_id": 1,
            "member_id": "x",
            "protocol_type": "consumer",
            "protocol_name": "range",
            "assignments": [],
        },
        {
            "": ":30",
            "READ GROUP kept": ":25",
        },
    ),
    Request(
        "sync without a protocol",
        "SyncGroup",
        5,
        {
            "group_id": "kept",
            "generation_id": 1,
            "member_id": "x",
            "assignments": [],
        },
        {
            "": ":23",
        },
    ),
    Request(
        "heartbeat",
        "Heartbeat",
        4,
        {
            "group_id": "kept",
            "generation_id": 1,
            "member_id": "x",
        },
        {
            "": ":30",
            "READ GROUP kept": ":25",
        },
    ),
    Request(
        "leave",
        "LeaveGroup",
        4,
        {"group_id": "kept", "members": [{"member_id": "x"}]},
        {
            "": ":30",
            "READ GROUP kept": ":0 :25",
        },
    ),
    Request(
        "groups described",
        "DescribeGroups",
        5,
        {
            "groups": ["kept", "other", "absent"],
            "include_authorized_operations": True,
        },
        {
            "": "absent:30 kept:30 other:30",
            "DESCRIBE GROUP kept": "kept:0 may=256 absent:30 other:30",
            "READ GROUP kept; DELETE GROUP absent": "absent:0 may=320 kept:0 may=264 other:30",
            "ALL GROUP other": "other:0 may=3400 absent:30 kept:30",
            "as admin": "absent:0 may=3400 kept:0 may=3400 other:0 may=3400",
        },
    ),
    Request(
        "groups listed",
        "ListGroups",
        4,
        {"states_filter": []},
        {
            "": ":0",
            "READ GROUP kept": ":0 kept",
            "DESCRIBE GROUP oth*": ":0 other",
        },
    ),
    Request(
        "groups deleted",
        "DeleteGroups",
        2,
        {"groups_names": [f"{OWN}-old", "kept"]},
        {
            "": "kept:30 own-old:30",
            f"DELETE GROUP {OWN}-old": "kept:30 own-old:0",
            f"READ GROUP {OWN}-old": "kept:30 own-old:30",
        },
        group=f"{OWN}-old",
    ),
    Request(
        "offsets deleted",
        "OffsetDelete",
        0,
        {
            "group_id": f"{OWN}-old",
            "topics": [
                {"name": t, "partitions": [{"partition_index": 0}]} for t in (*BOTH, "absent")
            ],
        },
        {
            "": ":30",
            f"DELETE GROUP {OWN}-old": ":0 absent 0:29 open 0:29 shut 0:29",
            f"DELETE GROUP {OWN}-old; READ TOPIC open": ":0 absent 0:29 open 0:0 shut 0:29",
            f"READ GROUP {OWN}-old; READ TOPIC open": ":30",
        },
        group=f"{OWN}-old",
    ),
]
