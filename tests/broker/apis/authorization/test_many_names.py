"""Tests that no step of the work on a request handles more than a few denied names."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.net.request import Request
from protocol.schema import ZERO_UUID
from tests.broker.apis.authorization.asking import GROUP, Value, guarded_broker
from tests.broker.loop_work import counting_lines

MANY = 600
"""A number of names that is too large for a request to be decoded in the event loop."""
FEW = 2
LINES_IN_A_STEP = 300
"""The maximum number of code lines that one step may execute. It is below `MANY`, so that the test
detects a step that executes a line for each of `MANY` names."""

Names = list[str]


def topic_named(name: str) -> Value:
    return {"name": name, "topic_id": ZERO_UUID}


def resource(name: str) -> Value:
    return {"resource_type": 2, "resource_name": name, "configuration_keys": None}


def new_topic(name: str) -> Value:
    return {"name": name, "num_partitions": 1, "replication_factor": 1}


REQUESTS: list[tuple[str, int, Callable[[Names], Value]]] = [
    ("Metadata", 1, lambda names: {"topics": [{"name": name} for name in names]}),
    ("Metadata", 12, lambda names: {"topics": [topic_named(name) for name in names]}),
    ("CreateTopics", 7, lambda names: {"topics": [new_topic(name) for name in names]}),
    ("DeleteTopics", 5, lambda names: {"topic_names": names}),
    ("DeleteTopics", 6, lambda names: {"topics": [topic_named(name) for name in names]}),
    ("DescribeConfigs", 4, lambda names: {"resources": [resource(name) for name in names]}),
    ("FindCoordinator", 4, lambda names: {"key_type": 0, "coordinator_keys": names}),
    ("FindCoordinator", 4, lambda names: {"key_type": 1, "coordinator_keys": names}),
    (
        "OffsetFetch",
        8,
        lambda names: {"groups": [{"group_id": name, "topics": None} for name in names]},
    ),
    (
        "OffsetFetch",
        8,
        lambda names: {
            "groups": [
                {
                    "group_id": GROUP,
                    "topics": [{"name": name, "partition_indexes": [0]} for name in names],
                }
            ]
        },
    ),
    ("DescribeGroups", 5, lambda names: {"groups": names}),
    ("DeleteGroups", 2, lambda names: {"groups_names": names}),
    ("DescribeTransactions", 0, lambda names: {"transactional_ids": names}),
    ("DescribeTopicPartitions", 0, lambda names: {"topics": [{"name": name} for name in names]}),
]


@pytest.mark.parametrize(("api", "version", "request_of"), REQUESTS)
async def test_request_with_many_denied_names_is_handled_in_short_steps(
    tmp_path: Path, api: str, version: int, request_of: Callable[[Names], Value]
) -> None:
    names = [f"denied-{number}" for number in range(MANY)]
    async with guarded_broker(tmp_path, f"alice: DESCRIBE GROUP {GROUP}") as asking:
        await asking.ask("alice", api, version, request_of(names[:FEW]))  # creates the codecs
        value = request_of(names)
        asking.broker.slicer.slice_ns = 0
        with counting_lines("/broker/apis/") as work:
            await asking.ask("alice", api, version, value)
    assert work.longest < LINES_IN_A_STEP, f"{work.longest} lines in one step"


async def test_response_with_long_names_is_encoded_in_a_worker_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame, threads = Request.frame, []

    def encoded(request: Request, value: Value) -> bytes:
        threads.append(threading.current_thread())
        return frame(request, value)

    names = [f"{number}".ljust(32_000, "n") for number in range(40)]
    async with guarded_broker(tmp_path) as asking:
        monkeypatch.setattr(Request, "frame", encoded)
        await asking.ask("alice", "FindCoordinator", 4, {"key_type": 0, "coordinator_keys": names})
    assert threads
    assert threading.main_thread() not in threads
