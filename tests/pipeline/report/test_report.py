"""Tests of the HTML report: its values equal its tables, its size is bounded, names are escaped,
and a browser shows it completely."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from pipeline.engines.duck import DuckEngine
from pipeline.report.facts import LISTED, PARTS, TABLES
from pipeline.report.head import Head, Thresholds
from pipeline.report.labels import (
    counted,
    duration,
    moment,
    nice_span,
    nice_top,
    number,
    ranges,
    safe,
    ticks,
)
from pipeline.report.member_queries import GENERATIONS, MEMBERS
from pipeline.report.page import make_report
from pipeline.times import instant
from tests.page.axe import violations
from tests.page.browser import DESK, PHONE, Browser, browsing
from tests.pipeline.conftest import at
from tests.pipeline.pictures import DROWNING, PICTURES, photograph
from tests.pipeline.relations import ms, rows_of
from tests.pipeline.report_pages import listed, part

pytestmark = [pytest.mark.pipeline, pytest.mark.proves("pipeline 13")]

HOSTILE = "<script>document.title='owned'</script><img src=x onerror=alert(1)>\"'&"
MINUTES = 10
Rows = dict[str, list[dict[str, Any]]]
Report = Callable[..., str]


@pytest.fixture
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """Returns a function that makes the report from the rows of tables."""

    def made(rows: Rows, **head: Any) -> str:
        engine = DuckEngine(str(tmp_path_factory.mktemp("engine")))
        for name, found in rows.items():
            engine.read(name, [rows_of(TABLES[name], found)], TABLES[name])
        page = make_report(engine, rows, Head("a source", "an engine", **head), 0)
        engine.close()
        return page

    return made


def group(
    name: str,
    lag: list[int] | None = None,
    *,
    members: int | None = 1,
    verdict: str = "level",
    generations: int = 1,
    topic: str = "orders",
    dead: str | None = None,
) -> Rows:
    """Returns table rows for ten minutes of a group. ``lag`` lists the number of unread records in
    each minute. The lag in seconds is half of this number."""
    of = {"group_id": name}
    place = {**of, "topic": topic, "partition": 0}
    rows: Rows = {table: [] for table in TABLES}
    for minute, records in enumerate(lag or []):
        rows["lag"].append(
            {**place, "minute": at(60 * minute), "as_of": at(60 * minute + 60),
             "lag_records": records, "lag_s": records / 2, "lag_precision_s": 0.0, "step_s": 60.0}
        )  # fmt: skip
    if lag:
        rows["catch_up"].append(
            {**place, "verdict": verdict, "lag_records": lag[-1], "lag_s": lag[-1] / 2,
             "lag_precision_s": 0.0, "member_count": members, "consumed_per_s": 1.0,
             "produced_per_s": 2.0}
        )  # fmt: skip
    for minute in range(MINUTES):
        rows["commits"].append({**place, "committed_at": at(60 * minute + 30)})
        rows["rates"].append({**of, "topic": topic, "minute": at(60 * minute), "commits": 1})
    each = MINUTES * 60 / generations
    for nth in range(generations if members is not None else 0):
        last = nth == generations - 1
        rows["generations"].append(
            {**of, "life": 0, "generation": nth + 1, "began_at": at(each * nth), "change": "joined",
             "ended_at": None if last else at(each * (nth + 1)), "duration_s": each,
             "member_count": members, "protocol_type": "consumer", "log_offset": nth,
             "joined": [person(name)], "members_left": [],
             "moved": [], "members": [{**person(name), "assignment": held(topic, number_)}
                                      for number_ in range(members or 0)]}
        )  # fmt: skip
    if dead:
        rows["dead_groups"].append({**of, "reason": dead})
    rows["churn"].append(
        {**of, "generations": generations, "rebalances": generations - 1, "partitions_moved": 0}
    )
    return rows


def person(name: str) -> dict[str, Any]:
    return {"member_id": f"{name}-1", "client_id": f"{name}-client", "client_host": "/10.0.0.1"}


def held(topic: str, partition: int) -> list[dict[str, Any]]:
    return [{"topic": topic, "partitions": [partition]}]


def rewind(name: str, seconds: float, **columns: Any) -> dict[str, Any]:
    row = {
        "group_id": name,
        "topic": "orders",
        "partition": 0,
        "rewound_at": at(seconds),
        "members": [],
    }
    return {**row, "previous_offset": 60, "committed_offset": 20, "rewound_records": 40, **columns}


def move(name: str, seconds: float, **columns: Any) -> dict[str, Any]:
    of = {"group_id": name, "topic": "orders", "partition": 0, "acquired_at": at(seconds)}
    owners = {
        f"{who}_{column}": f"{who}-{value}" if column != "client_host" else value
        for who in ("from", "to")
        for column, value in person(name).items()
    }
    owners = {key.replace("member_id", "member"): value for key, value in owners.items()}
    return {**of, **owners, **columns}


def together(*groups: Rows) -> Rows:
    return {name: [row for each in groups for row in each[name]] for name in TABLES}


def busy() -> Rows:
    """Returns table rows with groups in every state. The name of one group is a script
    injection."""
    rows = together(
        group(HOSTILE, [40] * MINUTES, verdict="stopped", topic=HOSTILE),
        group("drowns", list(range(0, 2000, 200)), verdict="falling behind", generations=3),
        group("left", [500] * MINUTES, members=0, verdict="nobody runs it"),
        group("late", [300] * MINUTES, verdict="catching up"),
        group("fine", [0] * MINUTES, verdict="caught up"),
        group("ahead", [-5] * MINUTES, verdict="out of range"),
        group("over", [0] * MINUTES, members=0, verdict="caught up"),
        group("unread", None),
        group("unread-empty", None, members=0),
        group("expired", [900] * MINUTES, members=0, verdict="nobody runs it",
              dead="empty and all its offsets have expired"),
        group("nothing", None, members=0, dead="empty and has no committed offsets"),
        group("deleted", None, members=0, dead="deleted"),
    )  # fmt: skip
    rows["rewinds"] = [
        rewind("drowns", 250, owner=person("drowns")),
        rewind("drowns", 500, owner=None, log_offset=1),
        rewind("late", 500, owner=None, members=[person("late")]),
    ]
    rows["moves"] = [
        move("drowns", 250, from_client_id=HOSTILE, topic=HOSTILE, revoking_s=60.0),
        move("drowns", 500, to_client_id=None, to_client_host=None, unowned_s=0.5),
    ]
    rows["transactional_commits"] = [
        {"group_id": "fine", "outcome": outcome, "log_offset": nth}
        for nth, outcome in enumerate(["committed"] * 5 + ["aborted"] * 2 + ["open"])
    ]
    rows["restless_members"] = [
        {"group_id": "drowns", "client_id": HOSTILE, "client_host": "h", "rebalances": 2}
    ]
    rows["expiring_offsets"] = [
        {"group_id": "left", "expired": False, "expires_at": at(9999)},
        {"group_id": "left", "expired": True, "expires_at": at(99)},
    ]
    return rows


def test_report_lists_groups_with_the_worst_state_first(report: Report) -> None:
    page = report(busy())

    assert [(name, row["state"]) for name, row in listed(page).items()] == [
        ("drowns", "drowning"),
        (safe(HOSTILE), "stuck"),
        ("ahead", "out of range"),
        ("left", "nobody runs it"),
        ("late", "behind"),
        ("unread", "not known"),
        ("unread-empty", "not known"),
        ("fine", "keeps up"),
        ("over", "empty"),
        ("expired", "dead"),
        ("nothing", "dead"),
        ("deleted", "deleted"),
    ]


def test_report_shows_only_groups_with_unread_or_lost_records_in_red(report: Report) -> None:
    page = report(busy())

    red = re.findall(r'<bdi>([^<]*?)</bdi></a></th><td[^>]*><span class="state bad">', page)
    assert red == ["drowns", safe(HOSTILE), "ahead", "left", "late"]
    tiles = {label: (kind, int(count)) for kind, count, label in re.findall(
        r"<li( class=bad)?><b>(\d+)</b>(.*?)</li>", page)}  # fmt: skip
    assert {label: count for label, (kind, count) in tiles.items() if kind} == {
        "drowning": 1, "stuck": 1, "out of range": 1, "nobody runs it": 1, "above a threshold": 3,
    }  # fmt: skip
    assert "expired" not in "".join(above_in(page))
    assert 'class="n over"' not in row_of(page, "expired")


def test_report_state_of_a_group_with_commits_but_no_members_depends_on_its_lag(
    report: Report,
) -> None:
    rows = together(
        group("late", [300] * MINUTES, members=0, verdict="catching up"),
        group("level", [3] * MINUTES, members=0),
        group("reads", [9000] * MINUTES, members=0, verdict="falling behind",
              dead="empty and all its offsets have expired"),
    )  # fmt: skip

    states = {name: row["state"] for name, row in listed(report(rows)).items()}
    assert states == {"reads": "drowning", "late": "behind", "level": "keeps up"}


@pytest.mark.parametrize(
    "generation",
    [{"ended_at": at(60)}, {"protocol_type": ""}],
    ids=["deleted", "never had members"],
)
@pytest.mark.parametrize("lag", [[0] * MINUTES, None], ids=["nothing unread", "lag not known"])
def test_report_says_that_clients_only_commit_in_a_group_without_members(
    report: Report, generation: dict[str, Any], lag: list[int] | None
) -> None:
    rows = group("g", lag, members=0, verdict="caught up")
    rows["generations"][-1].update(generation)
    for row in rows["catch_up"]:
        row["member_count"] = None

    page = report(rows)

    said = listed(page)["g"]
    assert (said["state"], said["members"]) == ("keeps up" if lag else "not known", "-")
    assert "no members: clients commit offsets without joining the group" in page


def test_groups_with_equal_displayed_age_are_sorted_by_unread_records(report: Report) -> None:
    """Ages of 2 h and a few seconds are displayed as 2 h."""
    rows = together(*[group(name, [5] * MINUTES) for name in ("a", "b", "c", "d")])
    ages = {"a": 7209.0, "b": 7201.0, "c": 7195.0, "d": 7380.0}
    for row in rows["lag"]:
        row["lag_s"] = ages[row["group_id"]]
        row["lag_records"] = {"a": 5, "b": 20, "c": 30, "d": 1}[row["group_id"]]

    said = listed(report(rows))

    assert [(name, row["oldest"], row["unread"]) for name, row in said.items()] == [
        ("d", "2.1 h", "1"), ("c", "2 h", "30"), ("b", "2 h", "20"), ("a", "2 h", "5"),
    ]  # fmt: skip


def above_in(page: str) -> list[str]:
    """Returns the lines of the list `above` in the report: one line for each group above a
    threshold."""
    [found] = re.findall(r'<ul class="above">(.*?)</ul>', page)
    return re.findall("<li>(.*?)</li>", found)


def row_of(page: str, name: str) -> str:
    [found] = [
        row for row in re.findall(r'<tr><th scope="row">.*?</tr>', page) if f">{name}<" in row
    ]
    return str(found)


def test_group_list_of_the_report_shows_the_figures_from_the_tables(report: Report) -> None:
    rows = listed(report(busy()))

    assert rows["drowns"] == {
        "state": "drowning", "unread": "1,800", "oldest": "15 min", "members": "1",
        "rebalances": "2", "rewinds": "2", "commits": "10", "in transactions": "-",
    }  # fmt: skip
    assert rows["fine"]["in transactions"] == "5 committed, 2 aborted, 1 open"
    assert rows["unread"]["unread"] == rows["unread"]["oldest"] == "-"


def test_report_lists_the_groups_above_each_threshold(report: Report) -> None:
    rows = busy()
    page = report(rows)
    assert "Groups above the lag threshold of 1 min (oldest unread record):" in page
    above = above_in(page)
    assert re.findall("<bdi>(.*?)</bdi>", "".join(above)) == ["drowns", "left", "late"]
    assert "threshold 1 min" in part(page, "late")
    # The lag is 0, 200, ... records per minute and half of these numbers in seconds, so it exceeds
    # the threshold in the second minute.
    time = '<time datetime="2026-01-01T{0}Z">{0}Z</time>'
    before = '<time datetime="2025-12-31T23:55:00Z">12-31 23:55Z</time>'
    assert above[0].endswith(
        f"<b>15 min</b> 1,800 unread since {before},"
        f" above the threshold since {time.format('00:01:20')}"
    )
    assert above[2].endswith(
        f"<b>2.5 min</b> 300 unread since {time.format('00:07:30')},"
        f" above the threshold since {time.format('00:00:30')}"  # the time of its first commit
    )

    page = report(rows, thresholds=Thresholds(lag_s=200, lag_records=400))
    assert "of 3.3 min (oldest unread record) or 400 unread records:" in page
    assert re.findall("<bdi>(.*?)</bdi>", "".join(above_in(page))) == ["drowns", "left"]
    assert "threshold 400" in part(page, "late")
    assert listed(page)["late"]["state"] == "keeps up"

    page = report(rows, thresholds=Thresholds(lag_s=1e20))
    assert "No group is above the lag threshold of" in page


def test_report_links_lead_to_the_generation_at_the_time_of_the_event(report: Report) -> None:
    page = report(busy())
    drowns = part(page, "drowns")

    links = set(re.findall(r'href="#(.*?)"', page))
    assert links <= set(re.findall(r'id="(.*?)"', page))
    assert len(set(re.findall(r'id="(.*?)"', page))) == len(re.findall(r'id="(.*?)"', page))
    # A generation lasts 200 seconds; the numbers in ids count back from the latest generation.
    stripes = re.findall(r'<a href="#(.*?)" tabindex="-1"><title>(\S+) to', drowns)
    assert (f"{(place := drowns[13:].split(chr(34))[0])}-3", instant(ms(60))) in stripes
    assert (f"{place}-1", instant(ms(540))) in stripes
    said = re.findall(r'data-label="generation"><a href="#(.*?)">(.*?)</a>', drowns)
    assert said == [(f"{place}-1", "generation 3"), (f"{place}-2", "generation 2")] * 2
    assert 'data-label="by"><bdi>a client outside the group</bdi>' in drowns
    assert 'data-label="by"><bdi>drowns-client at /10.0.0.1</bdi>' in drowns
    assert 'data-label="by"><bdi>no member owned the partition</bdi>' in part(page, "late")
    assert 'data-label="partitions"><bdi>orders:0</bdi>' in drowns


def test_report_shows_a_member_that_rewound_a_streams_group_as_not_known(report: Report) -> None:
    rows = group("tasks", [300] * MINUTES, verdict="catching up")
    for each in rows["generations"]:
        each["group_type"] = "streams"
    rows["rewinds"] = [rewind("tasks", 500, owner=None, members=[person("tasks")])]

    assert 'data-label="by"><bdi>not known</bdi>' in part(report(rows), "tasks")


def test_report_lists_moved_partitions_with_the_latest_move_first(report: Report) -> None:
    rows = busy()
    rows["moves"] += [move("late", nth) for nth in range(20)]
    page = report(rows)

    text = re.sub(r"<[^>]*>", "|", part(page, "drowns").split("Partitions that moved")[1])
    cells = [each for each in text.split("|") if each.strip()]
    assert cells[cells.index("when") :][: 7 * 3] == [
        "when", "partition", "from", "to", "revoked in", "without owner", "generation",
        "2026-01-01T00:08:20Z", "orders:0", "from-drowns-client at /10.0.0.1", "to-drowns-1", "-",
        "0.5 s", "generation 3",
        "2026-01-01T00:04:10Z", f"{safe(HOSTILE)}:0", f"{safe(HOSTILE)} at /10.0.0.1",
        "to-drowns-client at /10.0.0.1", "1 min", "-", "generation 2",
    ]  # fmt: skip
    assert "Only 8 of 20 rows are shown." in part(page, "late")
    assert "Partitions that moved" not in part(page, "fine")


def test_report_includes_an_old_generation_to_which_a_rewind_links(report: Report) -> None:
    rows = group("g", [1] * MINUTES, generations=100)
    rows["rewinds"] = [rewind("g", 100)]

    page = report(rows)

    assert '<a href="#g1-84">generation 17</a>' in page
    # the generation of the rewind, and the line for the earlier ones
    assert page.count('<li id="g1-') == GENERATIONS + 2
    assert "76 earlier generations" in page
    assert set(re.findall(r'href="#(.*?)"', page)) <= set(re.findall(r'id="(.*?)"', page))


def test_line_of_the_lag_plot_has_a_gap_where_the_lag_is_unknown(report: Report) -> None:
    rows = group("g", [5] * MINUTES)
    del rows["lag"][4]

    assert len(re.findall('<polyline class="line"', report(rows))) == 4


def test_report_page_size_is_bounded_with_many_groups_and_members(report: Report) -> None:
    names = [f"group-{nth:04}" for nth in range(LISTED + 5)]
    rows = together(
        group("crowd", [9000] * MINUTES, members=5 * MEMBERS, verdict="falling behind"),
        *[group(name, [1]) for name in names],
    )

    page = report(rows)

    assert len(page) < 3_000_000
    assert len(listed(page)) == LISTED
    assert page.count('<section id="g') - 1 == PARTS  # without the section of the list
    assert f"{PARTS} of {LISTED + 6:,} groups have plots below" in page
    assert f"Only the first {LISTED:,} groups are listed" in page
    assert f'<p class="cut">Only {MEMBERS} of {5 * MEMBERS} rows are shown.</p>' in page


def test_report_page_size_is_bounded_with_long_names(report: Report) -> None:
    page = report(group("g" * 32_000, [90] * MINUTES, topic="t" * 32_000))

    assert len(page) < 60_000
    assert "g" * 199 + "…" in page


def test_undecoded_and_damaged_records_are_reported(report: Report) -> None:
    rows = busy()
    rows["events"] = [
        {"log_partition": 0, "log_offset": nth, "kind": kind}
        for nth, kind in enumerate(["unknown", "unknown", "damaged", "torn_tail"])
    ]

    page = report(rows)

    assert (
        "2 records of the history could not be decoded: the changes that these records made" in page
    )
    assert "1 part of the history could not be read" in page
    assert "1 log ended in the middle of a batch" in page
    assert "understood" not in report(busy())


def test_report_shows_members_as_not_known_when_group_records_were_not_decoded(
    report: Report,
) -> None:
    rows = group("g", [5] * MINUTES)
    rows["generations"][0]["known"] = False
    rows["catch_up"][0]["member_count"] = None
    rows["rewinds"] = [rewind("g", 100, members=None)]

    page = report(rows)

    assert listed(page)["g"]["members"] == "not known"
    assert "the members are not known: some records of the group could not be decoded" in page
    assert "the members may be wrong" in page
    assert 'data-label="by"><bdi>not known</bdi>' in page


def test_age_of_unread_records_is_shown_with_its_precision_or_as_a_minimum(report: Report) -> None:
    rows = group("g", [500] * MINUTES)
    assert "±" not in report(rows)

    rows["lag"][-1]["lag_precision_s"] = 30.0
    assert "4.2 min old ± 30 s" in report(rows)

    rows["lag"][-1]["lag_precision_s"] = None
    assert "at least 4.2 min old" in report(rows)


def test_report_page_shows_implausible_timestamps_as_the_cause_of_unknown_age(
    report: Report,
) -> None:
    rows = group("g", [500] * MINUTES)
    for row in rows["lag"]:
        row["lag_s"] = row["lag_precision_s"] = None

    assert "not known: no record has a plausible timestamp." in part(report(rows), "g")
    for row in rows["lag"]:
        row["lag_records"] = -5
    assert "no record was unread." in part(report(rows), "g"), "its offset is beyond the end"


def test_report_prints_at_least_before_each_age_that_is_only_a_lower_bound(report: Report) -> None:
    rows = group("g", [100] * 5 + [500] * 5)
    exact = report(rows)
    for row in rows["lag"][5:]:
        row["lag_precision_s"] = None
    for row in (*rows["lag"][:5], *rows["catch_up"]):
        row["lag_precision_s"] = 0.0
    since_exact = report(rows)
    rows["catch_up"][0]["lag_precision_s"] = None
    page = report(rows)

    assert "or earlier" not in exact
    [line] = above_in(page)
    assert "<b>at least 4.2 min</b> 500 unread since <time" in line
    assert line.count("</time> or earlier") == 2
    assert listed(page)["g"]["oldest"] == "at least 4.2 min"
    shown = part(page, "g")
    assert "at least 4.2 min old; peak at least 4.2 min" in shown
    assert "oldest unread record is 50 s old" in shown
    assert "oldest unread record is at least 4.2 min old" in shown
    assert 'data-label="oldest"><bdi>at least 4.2 min</bdi>' in shown
    assert 'data-label="oldest"><bdi>4.2 min</bdi>' in part(since_exact, "g")


def test_report_head_names_source_engine_cluster_and_as_of_time(report: Report) -> None:
    page = report(busy(), cluster_id="c-1", as_of_ms=ms(600))

    told = dict(re.findall(r"<dt>(.*?)</dt><dd><bdi>(.*?)</bdi>", page))
    assert told["source"] == "a source"
    assert told["engine"] == "an engine"
    assert told["cluster"] == "c-1"
    assert told["as of"] == "2026-01-01T00:10:00Z"
    assert "<title>Offsets of a source</title>" in page


def test_names_are_escaped_in_every_part_of_the_report(report: Report) -> None:
    page = report(busy())

    assert HOSTILE not in page
    assert safe(HOSTILE) in page
    assert "<script" not in page
    assert not re.findall(r"""(?:src|href)\s*=\s*["'](?!data:|#)""", page)


def test_report_of_an_empty_history_has_text_but_no_plots(report: Report) -> None:
    page = report({})

    assert "<svg" not in page
    assert "The history has no commits and no groups." in page
    assert "No group is above the lag threshold" in page


def test_report_explains_unknown_figures_of_a_group(report: Report) -> None:
    page = report(group("g", None, members=None))

    for sentence in (
        "not known: the topic's records were not read.",
        "not known: the timestamps of records were not read.",
        "the history has no generation of this group.",
        "no commit moved an offset backwards.",
        "the history does not show the members of the group",
    ):
        assert sentence in page.replace("&#x27;", "'")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with browsing("") as browser:
        yield browser


@pytest.fixture
def shown(browser: Browser, report: Report, tmp_path: Path) -> Callable[..., None]:
    """Returns a function that opens the report in a browser with a given screen size."""
    place = tmp_path / "report.html"
    place.write_text(report(busy()))

    def show(size: tuple[int, int] = DESK, *, dark: bool = False, at: str = "") -> None:
        browser.system(dark)
        browser.screen(size)
        browser.driver.get("about:blank")
        browser.driver.get(place.as_uri() + at)

    return show


def test_report_page_loads_no_resource_and_no_script(
    browser: Browser, shown: Callable[..., None]
) -> None:
    shown()

    assert browser.driver.title == "Offsets of a source"
    assert not browser.find("img, script")
    assert browser.ask("return performance.getEntriesByType('resource').length") == 0
    assert browser.complaints() == []


def test_newest_part_of_every_plot_is_visible_on_a_phone(
    browser: Browser, shown: Callable[..., None]
) -> None:
    shown(PHONE)

    assert browser.ask("return document.documentElement.scrollWidth") <= PHONE[0]
    ends = browser.ask(
        """
        return [...document.querySelectorAll('.plots')].map((plots) => {
          const box = plots.getBoundingClientRect();
          const ends = [...plots.querySelectorAll('.cell, .bar, .line, .axis .last')].map(
            (each) => each.getBoundingClientRect().right);
          return [box.left, box.right, Math.max(...ends)];
        });
        """
    )
    assert len(ends) == len(busy()["churn"])
    assert browser.ask(
        """
        return [...document.querySelectorAll('.plots')].every((plots) => {
          const shown = [...plots.querySelectorAll('.axis span')].filter(
            (each) => each.checkVisibility()).map((each) => each.getBoundingClientRect());
          return shown.slice(1).every((box, nth) => shown[nth].right <= box.left);
        });
        """
    ), "the times of an axis do not overlap"
    name = browser.ask(
        """
        const name = document.querySelector('.plots .name');
        return [name.innerText, name.scrollWidth <= name.clientWidth];
        """
    )
    assert name == ["Lag in records 1,800 unread; peak 1,800 at 00:10Z", True]
    for left, right, newest in ends:
        assert left >= 0
        assert right <= PHONE[0]
        assert right - 4 <= newest <= right + 2


def test_report_lines_about_groups_above_a_threshold_take_little_height_on_a_phone(
    browser: Browser, shown: Callable[..., None]
) -> None:
    shown(PHONE)

    lines = browser.ask(
        """
        return [...document.querySelectorAll('ul.above li')].map((line) => {
          const box = line.getBoundingClientRect();
          return [box.left, box.right, box.height, line.innerText];
        });
        """
    )
    assert len(lines) == 3
    for left, right, height, text in lines:
        assert 0 <= left < right <= PHONE[0]
        assert height < 75, "three lines at most"
        assert "2026-" not in text


def test_stripe_in_a_plot_links_to_the_members_of_its_generation(
    browser: Browser, shown: Callable[..., None]
) -> None:
    shown(PHONE)

    browser.ask(
        "document.querySelector('.plots a').dispatchEvent("
        "new MouseEvent('click', {bubbles: true, cancelable: true}))"
    )
    assert "drowns-client" in browser.text(":target .held")
    assert "orders:0" in browser.text(":target .held")
    assert len(browser.ask("return [...document.querySelectorAll('.held')].filter("
                           "(each) => each.checkVisibility())")) == 1  # fmt: skip


@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_axe_finds_no_accessibility_violation(
    browser: Browser, shown: Callable[..., None], size: tuple[int, int], dark: bool
) -> None:
    shown(size, dark=dark, at="#g1-1")

    assert violations(browser) == []


def test_printed_report_page_shows_the_members_of_every_generation(
    browser: Browser, shown: Callable[..., None]
) -> None:
    shown()
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})

    assert browser.ask(
        "return [...document.querySelectorAll('.held')].every((each) => each.checkVisibility())"
    )
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


def test_function_photograph_rejects_a_report_about_another_source(
    browser: Browser, report: Report, tmp_path: Path
) -> None:
    page = tmp_path / "report.html"
    page.write_text(report(group(DROWNING, [90] * MINUTES)))

    with pytest.raises(AssertionError):
        photograph(browser, page, "another source", tmp_path)
    assert not list(tmp_path.glob("*.png"))
    photograph(browser, page, "a source", tmp_path)
    for picture in tmp_path.glob("*.png"):
        with Image.open(picture) as image:
            assert image.info["Title"] == "Offsets of a source"
    assert {picture.stem for picture in tmp_path.glob("*.png")} == {each[0] for each in PICTURES}


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        (number(950), "950"), (number(1234), "1.2k"), (number(3_000_000), "3M"),
        (duration(None), "-"), (duration(1.25), "1.3 s"), (duration(90), "1.5 min"),
        (duration(7200), "2 h"), (instant(None), "-"), (instant(0), "1970-01-01T00:00:00Z"),
        (instant(10**17), "100000000000000000 ms"), (nice_top(0), 1), (nice_top(37), 40),
        (nice_span(100), 120),
        (nice_top(100), 100), (nice_top(101), 120), (safe("a\0b"), "a\N{REPLACEMENT CHARACTER}b"),
        (ticks(0, 600_000)[1], (120_000, "00:02Z")), (ticks(5, 5), []),
        (ticks(0, 2 * 86_400_000)[1], (43_200_000, "01-01 12:00Z")),
        (ranges([3, 1, 2, 7]), "1-3,7"), (counted(0, "member"), "no members"),
        (moment(90_000, 86_399_999), '<time datetime="1970-01-01T00:01:30Z">00:01:30Z</time>'),
        (moment(90_000, 86_400_000), '<time datetime="1970-01-01T00:01:30Z">01-01 00:01Z</time>'),
    ],
)  # fmt: skip
def test_report_labels_have_the_expected_text(told: object, expected: object) -> None:
    assert told == expected
