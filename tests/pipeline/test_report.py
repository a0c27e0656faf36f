"""The report: bounded, safe whatever things are called, and whole in a real browser."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from pipeline.catalog import TABLES
from pipeline.report.facts import HEAT_ROWS, LINES, TIMELINES, Tables, collect
from pipeline.report.page import make_report, page
from pipeline.report.plots import POINTS, lines
from pipeline.report.svg import Span, duration, nice_top, number, safe
from pipeline.tables.schemas import PERSON
from pipeline.times import instant
from tests.page.browser import PHONE, Browser, browsing
from tests.pipeline.conftest import Frame, at

pytestmark = pytest.mark.pipeline

HOSTILE = "<script>document.title='owned'</script><img src=x onerror=alert(1)>\"'&"
MADE = datetime(2026, 1, 2, tzinfo=UTC)
GROUPS = HEAT_ROWS + 2


def tables_of(frame: Frame, rows: dict[str, list[dict[str, Any]]]) -> Tables:
    """Tables of these rows, the others empty."""
    return lambda name: frame(rows.get(name, []), TABLES[name].schema)


def busy() -> dict[str, list[dict[str, Any]]]:
    """Two minutes of more groups than a report shows."""
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in TABLES}
    who = {"member_id": f"{HOSTILE}-2", "client_id": HOSTILE, "client_host": "/10.0.0.1"}
    for nth in range(GROUPS):
        of = {"group_id": HOSTILE if not nth else f"group-{nth:02}"}
        place = {**of, "topic": HOSTILE, "partition": 0}
        rows["commits"] += [{**place, "at": at(30)}, {**place, "at": at(100)}]
        rows["churn"].append(
            {
                **of,
                "generations": GROUPS - nth,
                "rebalances": 1,
                "members_joined": 2,
                "members_left": 0,
                "median_generation_s": 9.0,
            }
        )
        rows["restless_members"].append(
            {
                **of,
                **{k: v for k, v in who.items() if k != "member_id"},
                "rebalances": 1,
                "joins": 1,
                "leaves": 0,
            }
        )
        for minute in (0, 1):
            rows["generations"].append(
                {
                    **of,
                    "life": 0,
                    "generation": 1 + minute,
                    "began_at": at(60 * minute + 1),
                    "ended_at": None if minute else at(61),
                    "change": "joined",
                    "member_count": 1 + minute,
                    "joined": [tuple(who.get(n) for n in PERSON.fieldNames())],
                    "left": [],
                    "moved": [],
                    "log_offset": minute,
                }
            )
            rows["rates"].append({**of, "minute": at(60 * minute), "commits": GROUPS - nth})
            rows["lag"].append(
                {
                    **place,
                    "as_of": at(60 * minute + 60),
                    "lag_records": 50 * (GROUPS - nth),
                    "lag_s": 60.0,
                }
            )
        rows["rewinds"].append(
            {
                **place,
                "at": at(100),
                "previous_offset": 60,
                "committed_offset": nth,
                "rewound_records": 60 - nth,
            }
        )
        rows["catch_up"].append(
            {
                **place,
                "never": True,
                "verdict": "stopped",
                "lag_records": 1,
                "lag_s": 5.0,
                "consumed_per_s": 0.0,
                "produced_per_s": 1.5,
            }
        )
        rows["expiring_offsets"].append(
            {**place, "rule": "its group is empty", "expired": False, "expires_at": at(9999)}
        )
    return rows


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("report")


@pytest.fixture
def report(frame: Frame, written: Path) -> Path:
    """Made once for every test of this process."""
    place = written / "report.html"
    if not place.exists():
        place.write_text(make_report(tables_of(frame, busy()), HOSTILE, MADE))
    return place


@pytest.fixture
def browser() -> Iterator[Browser]:
    with browsing("") as browser:
        yield browser


def show(browser: Browser, place: Path, size: tuple[int, int] = (1100, 900)) -> None:
    browser.screen(size)
    browser.driver.get(place.as_uri())


def test_every_plot_is_there_in_a_browser_and_nothing_else_happens(
    browser: Browser, report: Path
) -> None:
    browser.driver.execute_cdp_cmd("Network.enable", {})
    show(browser, report)

    assert browser.driver.title == f"Offsets of {HOSTILE}"
    assert len(browser.find("svg.lines polyline.line")) == 2 * LINES
    assert len(browser.find("svg.timeline rect.bar")) == 2 * TIMELINES
    assert len(browser.find("svg.heat rect.cell")) == 2 * HEAT_ROWS
    said = browser.text("body")
    assert f"{LINES} of {GROUPS} groups: those farthest behind." in said
    assert f"{TIMELINES} of {GROUPS} groups: those with most generations." in said
    assert f"10 of {GROUPS}." in said  # rewinds
    assert not browser.find("img")
    assert browser.ask("return performance.getEntriesByType('resource').length") == 0
    assert browser.complaints() == []

    bar = browser.find("svg.timeline rect.bar")[1]
    browser.ask(
        "const box = arguments[0].getBoundingClientRect();"
        "arguments[0].dispatchEvent(new PointerEvent('pointermove',"
        " {bubbles: true, clientX: box.x, clientY: box.y}))",
        bar,
    )
    assert "generation 2: joined" in browser.text("#tip")
    assert "<script>" in browser.text("#tip")  # as text

    show(browser, report, PHONE)
    assert browser.ask("return document.documentElement.scrollWidth") <= PHONE[0]
    light = browser.ask("return getComputedStyle(document.body).backgroundColor")
    browser.system(dark=True)
    assert browser.ask("return getComputedStyle(document.body).backgroundColor") != light
    assert browser.complaints() == []


def test_names_are_text_wherever_they_stand(report: Path) -> None:
    text = report.read_text()

    assert HOSTILE not in text
    assert safe(HOSTILE) in text
    assert len(re.findall("<script", text)) == 1
    assert not re.findall(r"""(?:src|href)\s*=\s*["'](?!data:)""", text)


def test_an_empty_history_gives_sentences(frame: Frame) -> None:
    facts = collect(tables_of(frame, {}))
    text = page(facts, "nothing", MADE)

    assert "<svg" not in text
    for sentence in (
        "The history has neither commits nor groups.",
        "No lag is known: no topic",
        "No group has had members.",
        "Nothing was committed.",
        "No commit went backwards.",
        "Every group whose lag is known keeps up.",
        "No offset will expire",
    ):
        assert sentence in text


def test_a_long_line_is_thinned_and_keeps_its_peaks() -> None:
    line = [(60_000 * minute, float(minute == 777)) for minute in range(1440)]

    drawn = lines("Lag", {"a": line})

    [points] = re.findall(r'<polyline class="line c0" points="([^"]*)"', drawn)
    heights = [float(point.split(",")[1]) for point in points.split()]
    assert len(heights) <= POINTS
    assert (min(heights), max(heights)) == (14, 234)


def test_a_single_moment_is_drawn_too() -> None:
    assert "<circle" in lines("Lag", {"a": [(5, 3.0)]})


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        (number(950), "950"), (number(1234), "1.2k"), (number(3_000_000), "3M"),
        (duration(None), "-"), (duration(1.25), "1.2 s"), (duration(90), "1.5 min"),
        (duration(7200), "2 h"), (instant(None), "-"), (instant(0), "1970-01-01T00:00:00Z"),
        (instant(10**17), "100000000000000000 ms"), (nice_top(0), 1), (nice_top(37), 40),
        (nice_top(100), 100), (nice_top(101), 120), (safe("a\0b"), "a\N{REPLACEMENT CHARACTER}b"),
        (Span(0, 600_000).ticks()[1], (120_000, "00:02Z")),
        (Span(5, 5).ticks(), []),
    ],
)  # fmt: skip
def test_what_labels_say(told: object, expected: object) -> None:
    assert told == expected
