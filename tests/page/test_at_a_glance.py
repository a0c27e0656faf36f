"""Tests that the page shows causes, deadlines, durations and charts of invented data correctly."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.page.browser import PHONE, Browser, browsing
from tests.page.conftest import cells
from tests.page.stub import Stub, now_ms, stubbed
from tests.waiting import until

pytestmark = pytest.mark.interop

SMALL = (1180, 900)
LAPTOP = (1300, 900)
WALL = (1920, 1080)
MINUTE_MS = 60_000
UUID = "30eafff4-8f7e-4a0c-9d1e-2d6a4f6b7c8d"
WHY = f"session of billing-1-{UUID} from 127.0.0.1 expired after 10.0 s; its connection had closed"
CUT_OFF = """
    return [...document.querySelectorAll(arguments[0])]
        .filter((each) => each.scrollHeight > each.clientHeight + 1
            || each.scrollWidth > each.clientWidth + 1)
        .map((each) => each.innerText)
"""


@pytest.fixture(scope="module")
def stub() -> Iterator[Stub]:
    with stubbed() as stub:
        yield stub


@pytest.fixture(scope="module")
def browser(stub: Stub) -> Iterator[Browser]:
    with browsing(stub.address) as browser:
        yield browser


def instant(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def shown(
    stub: Stub,
    browser: Browser,
    watch: str,
    head: dict[str, Any],
    rows: list[Any],
    size: tuple[int, int] = LAPTOP,
) -> None:
    """Opens the view of ``watch`` with the given values of ``head`` and ``rows``."""
    stub.watched = {watch: {"head": head, "rows": rows}}
    browser.open(f"#/{watch}", size=size)


def group_row(**more: Any) -> list[Any]:
    row = {
        "group": "billing",
        "state": "Stable",
        "verdict": "OK",
        "verdict_since_ms": None,
        "sentence": "",
        "members": 2,
        "lag": 34,
        "unread_since_ms": None,
        "trend": [3, 1200, 40],
        "last_rebalance_ms": now_ms() - 5 * MINUTE_MS - 20_000,
        "last_cause": "session_expired",
        "last_why": WHY,
        "clients": [],
        "hosts": [],
        "topics": [],
        **more,
    }
    return ["group", row["group"], row]


def group_head(**more: Any) -> dict[str, Any]:
    return {
        "group": "billing",
        "exists": True,
        "loading": False,
        "unreadable": None,
        "state": "Stable",
        "state_since_ms": now_ms() - 5 * MINUTE_MS,
        "generation": 3,
        "protocol": "range",
        "leader": "a-1",
        "awaits": None,
        "pending_offsets": [],
        "verdict": "OK",
        "findings": [],
        "more_findings": 0,
        "lag": 34,
        "trend": [3, 1200, 40],
        **more,
    }


def member(name: str, **more: Any) -> list[Any]:
    row = {
        "member": name,
        "instance": None,
        "client": name.partition("-")[0],
        "host": "127.0.0.1",
        "session_timeout_ms": 60_000,
        "rebalance_timeout_ms": 300_000,
        "last_heard_ms": now_ms(),
        "waits_with": None,
        "partitions": {},
        "assignment_bytes": 0,
        **more,
    }
    return ["member", name, row]


def rebalance(**more: Any) -> list[Any]:
    row = {
        "number": 1,
        "source": "seen",
        "cause": "session_expired",
        "why": WHY,
        "began_ms": now_ms() - 5 * MINUTE_MS - 20_000,
        "ended_ms": now_ms() - 5 * MINUTE_MS,
        "phase": "ended",
        "outcome": "assigned",
        "awaited": [],
        "join_ms": 20_000,
        "join_ended_by": "all_joined",
        "sync_ms": 3,
        "last_member": None,
        "last_wait_ms": 0,
        "generation": 3,
        "members": 2,
        "changes": [],
        "more_changes": 0,
        "assigned": [],
        **more,
    }
    return ["rebalance", str(row["number"]), row]


@pytest.mark.parametrize("size", [SMALL, LAPTOP, PHONE, WALL], ids=lambda size: str(size[0]))
def test_groups_table_shows_the_full_cause_of_the_last_rebalance(
    stub: Stub, browser: Browser, size: tuple[int, int]
) -> None:
    long = "a" * 30 + " " + "the-group-of-a-name-that-is-long"
    rows = [group_row(), group_row(group=long, verdict="STALLED", sentence="it is stuck " * 20)]
    shown(stub, browser, "groups", {"loading": False, "unreadable": {}}, rows, size)
    last = cells(browser, "Consumer groups", "billing")["Last rebalance"]
    assert last.startswith("A session expired 5 min ago session of billing-1-30eafff4…")
    assert browser.ask(CUT_OFF, "td.last, td.last b, td.last .why") == []
    assert browser.ask("return document.documentElement.scrollWidth") <= size[0]
    table = browser.find(".scroll")[0]
    assert browser.ask("return arguments[0].scrollWidth <= arguments[0].clientWidth", table)


def test_group_view_shows_the_cause_of_the_last_rebalance_at_the_top(
    stub: Stub, browser: Browser
) -> None:
    earlier = rebalance(number=1, cause="member_joined", why="x joined")
    rows = [member("a-1"), earlier, rebalance(number=2)]
    shown(stub, browser, "groups/billing", group_head(), rows)
    assert browser.text(".title .last").startswith(
        "Last rebalance: A session expired, 5 min ago: session of billing-1-30eafff4… from"
    )
    place = browser.ask("return document.querySelector('.title .last').getBoundingClientRect().top")
    assert place < LAPTOP[1] / 3


def waiting(**awaited: Any) -> tuple[dict[str, Any], list[Any]]:
    """Returns head and rows of a group in the join phase. The join phase ends in 4 min, but the
    session of the awaited member expires in 13 s."""
    at_ms = now_ms()
    who = {"member": "a-1", "instance": None, "client": "a", "host": "127.0.0.1"}
    ends_ms = at_ms + 13_000
    finding = {
        "verdict": "BLOCKED",
        "since_ms": at_ms - 2 * MINUTE_MS,
        "topic": None,
        "partition": None,
        **who,
        "sentence": "a rebalance has been waiting for a-1 on 127.0.0.1 since"
        f" {instant(at_ms - 2 * MINUTE_MS)} (until {instant(ends_ms)} at the latest): the member"
        " has sent no heartbeat for 47.0 s",
        "advice": "evict it",
        "command": "muster groups evict billing a-1",
    }
    awaits = {
        "phase": "join",
        "deadline_ms": at_ms + 4 * MINUTE_MS,
        "ends_ms": ends_ms,
        "members": [{**who, "sign": "silent", "last_heard_ms": at_ms - 47_000, **awaited}],
    }
    head = group_head(
        state="PreparingRebalance", verdict="BLOCKED", findings=[finding], awaits=awaits
    )
    rows = [
        member("a-1", last_heard_ms=at_ms - 47_000),
        member("b-1", waits_with="JoinGroup", last_heard_ms=None),
        rebalance(phase="join", ended_ms=None, outcome=None, join_ms=None, sync_ms=None),
    ]
    return head, rows


def test_page_of_a_group_in_the_join_phase_shows_only_the_earliest_deadline(
    stub: Stub, browser: Browser
) -> None:
    shown(stub, browser, "groups/billing", *waiting())
    told = browser.text()
    deadlines = re.findall(r"for at most (\d+) s", told)
    assert len(deadlines) == 2, "one in the banner, one in the finding"
    assert abs(int(deadlines[0]) - int(deadlines[1])) <= 1
    assert 5 <= int(deadlines[0]) <= 13
    assert "4 min" not in told
    assert "session expires" not in told


@pytest.mark.parametrize(
    ("sign", "told"),
    [
        ("closed", "its connection closed, last heartbeat 47 s ago"),
        ("silent", "a (127.0.0.1, last heartbeat 47 s ago)"),
    ],
)
def test_banner_shows_the_last_heartbeat_of_the_awaited_member(
    stub: Stub, browser: Browser, sign: str, told: str
) -> None:
    shown(stub, browser, "groups/billing", *waiting(sign=sign))
    banner = re.sub(r"4[89] s ago", "47 s ago", browser.text(".note"))
    assert told in banner


def test_members_in_a_join_phase_are_shown_as_waiting_or_awaited(
    stub: Stub, browser: Browser
) -> None:
    head, rows = waiting()
    shown(stub, browser, "groups/billing", {**head, "findings": [], "verdict": "OK"}, rows)
    assert cells(browser, "Members", "a-1")["Verdict"] == "AWAITED"
    assert cells(browser, "Members", "b-1")["Verdict"] == "WAITS"
    shown(stub, browser, "groups/billing", group_head(), [member("a-1"), member("b-1")])
    assert cells(browser, "Members", "b-1")["Verdict"] == "OK"


INSTANT = re.compile(r"\d{4}-\d\d-\d\dT")


def test_group_view_shows_durations_with_the_exact_time_as_tooltip(
    stub: Stub, browser: Browser
) -> None:
    head, rows = waiting()
    shown(stub, browser, "groups/billing", head, rows)
    assert not INSTANT.search(browser.text())
    assert "BLOCKED for 2 min member #1 a" in " ".join(browser.text(".findings .head").split())
    assert browser.text(".findings .sentence").startswith("a rebalance has been waiting for a-1 on")
    times = browser.ask(
        "return [...document.querySelectorAll('main time[data-ms]')]"
        ".filter((each) => each.dataset.ms).map((each) => each.title)"
    )
    assert len(times) >= 6
    assert all(INSTANT.match(each) for each in times)
    (tip,) = browser.ask(
        "return [...document.querySelectorAll('.ribbon text.when')]"
        ".map((each) => each.parentNode.querySelector('title').textContent)"
    )
    assert INSTANT.match(tip)


@pytest.mark.parametrize(
    ("sentence", "told"),
    [
        (
            "orders:3 has been stuck at offset 250 since {past} with 5",
            "offset 250 for 5 min with 5",
        ),
        ("has restarted 4 times since {past}, each time", "restarted 4 times in 5 min, each time"),
        ("has been waiting for x since {past}: it", "has been waiting for x for 5 min: it"),
        ("the oldest is from {past}; the group", "the oldest is from 5 min ago; the group"),
        ("it was committed at {past}; m1", "it was committed 5 min ago; m1"),
        ("the coordinator does soon after {future}", "the coordinator does in about 3 min"),
        ("x (until {future} at the latest): it", "x (for at most 3 min more): it"),
        ("no time in it at all", "no time in it at all"),
    ],
)
def test_timestamps_in_sentences_are_shown_as_durations_before_or_after_now(
    stub: Stub, browser: Browser, sentence: str, told: str
) -> None:
    past, future = instant(now_ms() - 5 * MINUTE_MS - 9000), instant(now_ms() + 3 * MINUTE_MS)
    finding = {
        "verdict": "STALLED", "since_ms": None, "topic": None, "partition": None, "member": None,
        "instance": None, "client": None, "host": None, "advice": None, "command": None,
        "sentence": sentence.format(past=past, future=future),
    }  # fmt: skip
    shown(stub, browser, "groups/billing", group_head(findings=[finding]), [])
    # The countdown also shows seconds, and some seconds may have passed.
    found = re.sub(r"2 min 5\d s|3 min 0 s", "3 min", browser.text(".findings .sentence"))
    assert told in found


def test_charts_have_scales_and_tooltips_with_sample_values(stub: Stub, browser: Browser) -> None:
    shown(stub, browser, "groups", {"loading": False, "unreadable": {}}, [group_row()])
    assert "at most 1,200" in cells(browser, "Consumer groups", "billing")["Lag in 10 minutes"]
    shown(stub, browser, "groups/billing", group_head(), [])
    numbers = browser.text("figure.chart").split("\n")
    assert numbers == ["1,200", "0", "15 s ago", "now"]
    samples = browser.ask(
        "return [...document.querySelectorAll('.chart .sample title')].map((e) => e.textContent)"
    )
    assert samples == ["3, 15 s ago", "1,200, 10 s ago", "40, 5 s ago", "34, now"]


def broker_head() -> dict[str, Any]:
    names = ("requests", "commits", "cpu", "memory_bytes", "connections", "delay_ms")
    counts = (
        "requests", "commits", "connections", "connections_refused", "groups", "members", "lag",
        "offsets", "topics", "memory_bytes", "load_ms", "protocol_errors",
    )  # fmt: skip
    return {
        "broker": 1, "cluster": "c", "address": "127.0.0.1:9092", "state": "ready", "reason": None,
        "load": None, "shards": {}, "rebalances": {}, "trends": {name: [1, 4, 2] for name in names},
        **dict.fromkeys(counts, 7),
    }  # fmt: skip


def test_broker_tiles_show_the_last_value_of_their_charts(stub: Stub, browser: Browser) -> None:
    shown(stub, browser, "broker", broker_head(), [])
    told = browser.ask("return [...document.querySelectorAll('.tile')].map((e) => e.innerText)")
    tiles = [" ".join(each.split()) for each in told]
    assert tiles[0] == "Requests 2/s 7 since the broker started 4/s 0/s 10 s ago now"
    assert tiles[2] == "CPU 200.0 % of one core 400.0 % 0.0 % 10 s ago now"


def test_topic_view_lists_settings_of_the_topic_before_defaults(
    stub: Stub, browser: Browser
) -> None:
    head = {
        "topic": "orders", "exists": True, "partitions": 1, "records": 5, "size_bytes": 100,
        "cleanup_policy": "delete", "internal": False,
    }  # fmt: skip
    settings = [
        ("cleanup.policy", "delete", "default"), ("flush.ms", "9223372036854775807", "default"),
        ("retention.ms", "86400000", "broker"), ("segment.bytes", "1048576", "topic"),
    ]  # fmt: skip
    rows = [
        ["setting", name, {"name": name, "value": value, "source": source, "documentation": "what"}]
        for name, value, source in settings
    ]
    shown(stub, browser, "topics/orders", head, rows)
    names = browser.ask(
        "return [...document.querySelectorAll('tr:has(td.value)')].map((e) => e.dataset.key)"
    )
    assert names == ["segment.bytes", "retention.ms", "cleanup.policy", "flush.ms"]
    segment = cells(browser, "Settings", "segment.bytes")
    assert (segment["Value"], segment["Set by"]) == ("1.0 MiB (1,048,576 bytes)", "this topic")
    assert cells(browser, "Settings", "retention.ms")["Value"] == "24 h (86,400,000 ms)"
    assert cells(browser, "Settings", "flush.ms")["Value"] == "no limit (9223372036854775807)"
    shown(stub, browser, "topics/orders", head, [])
    assert "need DESCRIBE_CONFIGS" in browser.text()


def test_cluster_view_of_a_standalone_broker_explains_why_it_is_empty(
    stub: Stub, browser: Browser
) -> None:
    shown(stub, browser, "groups", {"loading": False, "unreadable": {}}, [group_row()])
    keys = browser.text(".foot")
    assert "cluster" not in keys
    assert "broker" in keys
    assert "Cluster" not in browser.text("nav")
    browser.press("c")
    assert browser.text("h1") == "Groups"
    browser.ask("location.hash = '#/cluster'")
    until(
        "it says why",
        lambda: "This broker is standalone: it does not belong to a cluster." in browser.text(),
    )
    assert browser.text("#link") == "not shown"
    assert "Loading" not in browser.text("body")
    browser.press("g")
    until("the groups are back", lambda: browser.text("h1") == "Groups")
    assert browser.text("#link") == "live"
