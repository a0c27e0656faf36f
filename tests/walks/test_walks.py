"""Limits the number of functions that handle a request, and the number of source files that contain
these functions. Tests some common requests."""

from __future__ import annotations

import pytest

from tests.walks.recorder import LEFT_OUT, Step, Walk
from tests.walks.requests import WALKS, walk

LIMITS = {
    "Heartbeat": (13, 7),
    "OffsetFetch": (19, 11),
    "OffsetCommit": (47, 18),
    "Fetch": (32, 13),
    "Produce": (34, 14),
    "JoinGroup": (67, 19),
    "SyncGroup": (67, 24),
    "EndTxn": (84, 32),
    "denied": (21, 11),
}
"""Two limits for each request: the maximum number of functions that handle the request, and the
maximum number of files that contain these functions. Changes may only lower a limit."""


def test_each_recorded_request_has_limits_of_functions_and_files_and_no_limit_is_unused() -> None:
    assert set(LIMITS) == set(WALKS)


@pytest.mark.parametrize("name", WALKS)
def test_number_of_functions_and_files_that_handle_a_request_is_within_its_limit(name: str) -> None:
    recorded = walk(name)
    functions_max, files_max = LIMITS[name]
    assert recorded.functions <= functions_max, recorded.page()
    assert recorded.files <= files_max, recorded.page()


def test_recorded_calls_of_a_heartbeat_have_the_handler_before_the_shard() -> None:
    steps = walk("Heartbeat").steps
    places = [(step.file, step.depth) for step in steps]
    connection = places.index(("broker/net/connection.py", 1))
    handler = places.index(("broker/apis/heartbeat.py", 2))
    shard = next(step for step in steps if step.file == "coordinator/shard.py")
    assert connection < handler < steps.index(shard)
    assert shard.depth > 2


def test_printed_recording_shows_repeated_calls_in_one_line() -> None:
    recorded = Walk()
    recorded.steps = [Step(0, "a", "x.py", 1), *[Step(1, "b", "y.py", 22)] * 3]
    assert recorded.page() == "x.py:1   a\ny.py:22    b"


def test_recorder_omits_constructors_and_excluded_files() -> None:
    files = {step.file for step in walk("OffsetCommit").steps}
    assert "log/segment.py" in files
    assert not [file for file in files if file.startswith(LEFT_OUT)]
    names = {step.function.rpartition(".")[2] for step in walk("OffsetCommit").steps}
    assert not [name for name in names if name.startswith("__")]
