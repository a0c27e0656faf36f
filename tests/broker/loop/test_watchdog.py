"""Tests that the watchdog measures work that can block the event loop, under names that
docs/operate/metrics.md lists."""

from __future__ import annotations

import ast
import asyncio
import gc
from pathlib import Path
from time import perf_counter_ns

import pytest

from broker.apis.tables.standalone import SERVED
from broker.loop import watchdog
from broker.loop.garbage import collect_seldom
from broker.loop.pieces import NAMES
from broker.loop.watchdog import Watchdog
from broker.net import connection
from broker.time import Time
from protocol.messages import BY_KEY
from tests.broker.serving import asked, eventually, serving

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "operate" / "metrics.md"
NAMING = {
    "every", "_repeat", "spawn", "_spawn", "task", "watched", "ended", "work", "Outboxes",
    "FollowedNodes",
}  # fmt: skip
"""The functions that have a parameter for the name of a kind of work. If such work blocks the event
loop, the watchdog reports it under this name."""
GIVEN_OTHERWISE = {"background", "requests", "share release"}
"""Kinds of work whose names the test can't find in the source code, because no call of a function
in `NAMING` contains such a name as a literal. The name is the default of a parameter, or was
assigned to a variable before the call."""


@pytest.fixture
def every_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lowers the threshold of the watchdog to zero, so that it counts every piece of work."""
    monkeypatch.setattr(watchdog, "HELD_NS_MAX", -1)
    monkeypatch.setattr(connection, "HELD_NS_MAX", -1)


def documented() -> set[str]:
    section = PAGE.read_text().split("### Pieces of work")[1].split("\n## ")[0]
    # after the table of APIs
    rows = [line for line in section.splitlines() if line.startswith("|")][3:]
    return {name for row in rows for name in row.split("|")[1].split("`")[1::2]}


def names_in_source() -> set[str]:
    """Returns the names of kinds of work that the source code passes to the watchdog, as literals
    or constants."""
    paths = [path for path in (ROOT / "broker").rglob("*.py") if path.parts[-2] != "verbs"]
    texts = [path.read_text() for path in paths]
    naming = [text for text in texts if any(each in text for each in ("Final", *NAMING))]
    nodes = [node for text in naming for node in ast.walk(ast.parse(text))]
    constants = {
        node.target.id: node.value
        for node in nodes
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }
    given = [
        constants.get(each.id) if isinstance(each, ast.Name) else each
        for call in nodes
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute | ast.Name)
        and (call.func.attr if isinstance(call.func, ast.Attribute) else call.func.id) in NAMING
        for each in call.args
    ]
    return {
        each.value
        for each in given
        if isinstance(each, ast.Constant) and isinstance(each.value, str)
    }


def test_metrics_page_lists_each_kind_of_work_that_the_watchdog_measures() -> None:
    assert documented() == set(NAMES)
    assert sorted(NAMES) == list(NAMES)
    given = names_in_source()
    assert {"turn", "cleaning", "in-sync replicas", "enlisting", "logins"} <= given
    assert given - {table.name for table in BY_KEY.values()} == set(NAMES) - GIVEN_OTHERWISE


async def test_watchdog_counts_broker_work_only_under_documented_names(
    tmp_path: Path, every_piece: None
) -> None:
    settings = {"log.retention.check.interval.ms": "50", "http.listener": "127.0.0.1:0"}
    async with serving(tmp_path, settings) as broker:
        broker.start_http()
        topic = {"name": "t", "num_partitions": 1, "replication_factor": 1}
        await asked(broker, lambda wire: wire.call("CreateTopics", 5, {"topics": [topic]}))
        await asked(broker, lambda wire: wire.call("FindCoordinator", 3, {"key": "g"}))
        join = {
            "group_id": "g",
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 10_000,
            "member_id": "",
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": b""}],
        }
        await asked(broker, lambda wire: wire.call("JoinGroup", 3, join))
        assert broker.sockets.http is not None
        _, writer = await asyncio.open_connection(*broker.sockets.http.getsockname())
        writer.write(b"GET /healthz HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n")
        fetch = {"max_wait_ms": 50, "min_bytes": 1, "topics": []}
        fetch["topics"] = [{"topic": "t", "partitions": [{"partition": 0}]}]
        await asked(broker, lambda wire: wire.call("Fetch", 4, fetch))
        broker.groups.tick()
        counts = broker.watchdog.counts
        wanted = {
            "CreateTopics",
            "FindCoordinator",
            "JoinGroup",
            "Fetch",
            "turn",
            "tick",
            "replies",
            "connections",
            "long polls",
            "snapshot",
            "retention",
            "http",
        }
        await eventually("all are measured", lambda: wanted <= set(counts))
        writer.close()
    assert set(counts) <= {*NAMES, *(row.api.name for row in SERVED.values())}


async def test_watchdog_counts_each_step_of_a_coroutine_separately(every_piece: None) -> None:
    watch = Watchdog(Time())

    async def work() -> str:
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return "done"

    assert await watch.watched("work", work()) == "done"
    assert watch.counts == {"work": 3}


async def test_watchdog_passes_cancellation_into_a_coroutine_and_exceptions_out_of_it(
    every_piece: None,
) -> None:
    watch = Watchdog(Time())
    seen: list[str] = []

    async def work() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            seen.append("cancelled")
            await asyncio.sleep(0)
            seen.append("tidied")
            raise

    task = asyncio.create_task(watch.watched("work", work()))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert seen == ["cancelled", "tidied"]

    async def broken() -> None:
        raise ValueError("ours")

    with pytest.raises(ValueError, match="ours"):
        await watch.watched("work", broken())


def test_garbage_collection_rarely_collects_generation_2(
    every_piece: None,
) -> None:
    watch = Watchdog(Time())
    before = gc.get_threshold()
    undo = collect_seldom(Time(), watch)
    try:
        full = gc.get_stats()[2]["collections"]
        kept = [[number] for number in range(200_000)]
        assert gc.get_stats()[2]["collections"] == full
        assert len(kept) == 200_000
        assert watch.counts["garbage collection"] > 10
    finally:
        undo()
    assert gc.get_threshold() == before


def test_watchdog_counts_nested_work_once(every_piece: None) -> None:
    watch = Watchdog(Time())
    began_ns = perf_counter_ns()
    watch.ended("inner", perf_counter_ns())
    watch.ended("outer", began_ns)
    assert watch.counts == {"inner": 1}
    watch.ended("outer", perf_counter_ns())
    assert watch.counts == {"inner": 1, "outer": 1}
