"""Tests the log lines of transactions: normal transitions have level debug, and involuntary ends
have a higher level."""

from __future__ import annotations

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from broker.cores.transactions.log_lines import observe
from tests.broker.edge import eventually
from tests.broker.seen import seeing
from tests.broker.stories import produce
from tests.broker.transaction_stories import NEWER, Producer, opened
from transactions.calls import BROKER, Client
from transactions.events import Cause, ShardLoaded, TransactionRefused, Transition
from transactions.states import State

APP = Client("billing", "10.0.0.7")


def line_of(
    old: State | None, new: State, cause: Cause, open_ms: int = -1, markers_ms: int = -1
) -> dict[str, object]:
    with capture_logs() as lines:
        observe(Transition("id", old, new, 7, 3, cause, "why", APP, 2, open_ms, markers_ms))
    [line] = lines
    return dict(line)


@pytest.mark.parametrize(
    ("old", "new", "cause", "open_ms", "level"),
    [
        (None, State.EMPTY, Cause.CLIENT, -1, "info"),
        (State.COMPLETE_COMMIT, State.EMPTY, Cause.CLIENT, -1, "debug"),
        (State.EMPTY, State.ONGOING, Cause.CLIENT, 0, "debug"),
        (State.ONGOING, State.PREPARE_COMMIT, Cause.CLIENT, 100, "debug"),
        (State.PREPARE_COMMIT, State.COMPLETE_COMMIT, Cause.MARKERS, 110, "debug"),
        (State.ONGOING, State.PREPARE_COMMIT, Cause.CLIENT, 10_000, "info"),
        (State.ONGOING, State.PREPARE_ABORT, Cause.CLIENT, 100, "debug"),
        (State.ONGOING, State.PREPARE_ABORT, Cause.FENCED, 100, "info"),
        (State.ONGOING, State.PREPARE_ABORT, Cause.TIMEOUT, 60_000, "warning"),
        (State.ONGOING, State.PREPARE_ABORT, Cause.ADMIN, 100, "warning"),
        (State.COMPLETE_ABORT, State.DEAD, Cause.EXPIRED, -1, "info"),
    ],
)
def test_log_line_of_each_transaction_transition_has_level_and_cause(
    old: State | None, new: State, cause: Cause, open_ms: int, level: str
) -> None:
    line = line_of(old, new, cause, open_ms)
    assert line["log_level"] == level
    assert (line["new"], line["cause"], line["detail"]) == (new.wire_name, cause.value, "why")
    assert (line["client"], line["host"], line["producer"], line["epoch"]) == (*APP, 7, 3)
    assert line.get("open_ms", -1) == open_ms


def test_completion_log_line_contains_the_duration_of_the_marker_writes() -> None:
    line = line_of(State.PREPARE_COMMIT, State.COMPLETE_COMMIT, Cause.MARKERS, 110, 10)
    assert line["markers_ms"] == 10


def test_log_line_of_a_transaction_timeout_has_no_client() -> None:
    states = State.ONGOING, State.PREPARE_ABORT
    with capture_logs() as lines:
        observe(Transition("id", *states, 7, 3, Cause.TIMEOUT, "too long", BROKER, 2, 9_000, -1))
    [line] = lines
    assert {"client", "host"}.isdisjoint(line)
    assert (line["cause"], line["open_ms"]) == ("timeout", 9_000)


def test_request_of_a_fenced_producer_is_logged_at_level_debug() -> None:
    with capture_logs() as lines:
        observe(TransactionRefused("id", 90, "an old epoch", 7, 2, APP))
    assert [line["log_level"] for line in lines] == ["debug"]


def test_load_of_a_transaction_shard_is_logged_only_if_it_completes_transactions() -> None:
    with capture_logs() as lines:
        observe(ShardLoaded(1000, 0))
        observe(ShardLoaded(1000, 3))
    [line] = lines
    assert (line["transactions"], line["of"]) == (3, 1000)


async def test_fencing_log_line_contains_the_hosts_of_both_producers(tmp_path: Path) -> None:
    async with seeing(tmp_path) as seen:
        await produce(seen, 1)
        await opened(seen)
        with capture_logs() as lines:
            await Producer(seen, "billing-1", NEWER).init()
            view = seen.broker.transactions.view_of("billing-1")
            await eventually(lambda: "billing-1" not in view.open())
    [fenced] = [line for line in lines if line["event"] == "producer fenced"]
    assert (fenced["host"], fenced["fenced_host"]) == ("10.0.0.8", "10.0.0.7")
    [aborted] = [line for line in lines if line.get("new") == "PrepareAbort"]
    assert (aborted["cause"], aborted["log_level"]) == ("fenced", "info")
