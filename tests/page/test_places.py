"""Tests of sorting, filtering and scroll keys on the page. The URL contains the filter, the sort
order and the number of rows."""

from __future__ import annotations

import re

import pytest
from selenium.webdriver.common.keys import Keys

from tests.brokers import KIND
from tests.interop.group_members import Group
from tests.page.browser import DESK, PHONE, Browser
from tests.page.conftest import TOPIC, group_page, rows
from tests.page.scene import PageBroker, commit
from tests.waiting import until

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(KIND != "muster", reason="the page is Muster's own"),
]

GROUPS = "Consumer groups"
BY_LAG = ["place-a", "place-b", "place-c"]
VIEWS = ("#/groups", group_page("place-a"), "#/topics", f"#/topics/{TOPIC}", "#/broker")
LINK = "tbody a"
ESCAPE, ENTER = Keys.ESCAPE, Keys.ENTER
ARROW_DOWN, ARROW_UP = Keys.ARROW_DOWN, Keys.ARROW_UP
PAGE_DOWN, PAGE_UP, HOME, END = Keys.PAGE_DOWN, Keys.PAGE_UP, Keys.HOME, Keys.END


@pytest.fixture(scope="module", autouse=True)
def _three_groups(broker: PageBroker) -> None:
    for offset, name in zip((1, 4, 7), BY_LAG, strict=True):
        commit(broker, name, offset)


def names(browser: Browser) -> list[str]:
    return [row.split()[0] for row in rows(browser, GROUPS)]


def address(browser: Browser) -> str:
    return str(browser.ask("return location.hash"))


def sort(browser: Browser, caption: str, title: str) -> str:
    """Clicks the column header ``title`` and returns the new sort order, ascending or
    descending."""
    pressed = browser.ask(
        """
        const table = [...document.querySelectorAll('table')].find(
            (each) => each.caption.textContent === arguments[0]);
        const head = [...table.tHead.rows[0].cells].find((each) => each.innerText === arguments[1]);
        head.querySelector('button').click();
        return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(
            () => done(head.getAttribute('aria-sort')))));
        """,
        caption,
        title,
    )
    return str(pressed)


def test_filter_and_sort_order_are_in_the_url(browser: Browser) -> None:
    browser.open()
    until("three are there", lambda: set(BY_LAG) <= set(names(browser)))
    browser.press("/", *"place-")
    until("three are left", lambda: sorted(names(browser)) == BY_LAG)
    assert sort(browser, GROUPS, "Lag") == "descending"
    assert names(browser) == BY_LAG
    assert sort(browser, GROUPS, "Lag") == "ascending"
    assert names(browser) == BY_LAG[::-1]
    assert address(browser) == "#/groups?q=place-&sort=lag"

    browser.open(address(browser))
    assert names(browser) == BY_LAG[::-1]
    assert browser.ask("return document.querySelector('input[type=search]').value") == "place-"

    browser.open("#/groups?sort=-nothing&show=x&q=place-a")
    assert names(browser) == ["place-a"], "invalid parameters are ignored"


def test_back_button_undoes_a_filter_a_sort_order_and_an_opened_group(browser: Browser) -> None:
    browser.open()
    browser.press("/", *"place-")
    until("filtered", lambda: sorted(names(browser)) == BY_LAG)
    sort(browser, GROUPS, "Lag")
    browser.find("tbody a")[0].click()
    until("opened", lambda: browser.text("h1") == "place-a")

    browser.driver.back()
    until("the list as it was", lambda: names(browser) == BY_LAG)
    assert browser.focused() == "place-a"
    browser.driver.back()
    until("unsorted", lambda: address(browser) == "#/groups?q=place-")
    browser.driver.back()
    until("unfiltered", lambda: address(browser) == "#/groups")
    until(
        "the field too", lambda: browser.ask("return document.querySelector('input').value") == ""
    )
    browser.driver.forward()
    until("filtered again", lambda: sorted(names(browser)) == BY_LAG)
    assert browser.ask("return document.querySelector('input').value") == "place-"


def test_key_escape_returns_to_the_filtered_list(browser: Browser) -> None:
    browser.open("#/groups?q=place-&sort=-lag")
    browser.press("j", "j", ENTER)
    until("opened", lambda: browser.text("h1") == "place-b")
    browser.press(ESCAPE)
    until("up", lambda: browser.text("h1") == "Groups")
    until("drawn", lambda: names(browser) == BY_LAG)
    assert browser.focused() == "place-b"


def test_every_table_column_sorts_ascending_and_descending(
    browser: Browser, broker: PageBroker
) -> None:
    with Group("confluent", broker.bootstrap, "place-a", topics=[TOPIC]) as group:
        group.start("member")
        pressed = 0
        for view in VIEWS:
            browser.open(view)
            if view == VIEWS[1]:
                until("its member", lambda: len(rows(browser, "Members")) == 1)
            tables = browser.ask(
                "return [...document.querySelectorAll('table')].map((each) => ["
                "each.caption.textContent,"
                "[...each.tHead.rows[0].cells].map((cell) => [cell.innerText, cell.className])])"
            )
            for caption, titles in tables:
                for title, kind in titles:
                    if kind != "chart" and title != "Record":
                        both = {sort(browser, caption, title), sort(browser, caption, title)}
                        assert both == {"ascending", "descending"}, (view, caption, title)
                        pressed += 1
        assert pressed > 35


def test_rows_with_unknown_values_keep_their_order_when_sorted(browser: Browser) -> None:
    browser.open("#/groups?q=place-")
    until("three", lambda: sorted(names(browser)) == BY_LAG)
    # None of these groups has rebalanced, so the order of the rows does not change.
    standing = names(browser)
    sort(browser, GROUPS, "Last rebalance")
    assert names(browser) == standing
    sort(browser, GROUPS, "Last rebalance")
    assert names(browser) == standing


def test_filter_finds_a_group_by_its_client_or_host_or_topic_or_state(
    browser: Browser, broker: PageBroker
) -> None:
    with Group("confluent", broker.bootstrap, "sought", topics=[TOPIC]) as group:
        group.start("a-client-of-its-own")
        browser.open()
        until("it is there", lambda: "sought" in names(browser))
        for words in ("own of-its", "127.0.0.1", "sought orders stable"):
            browser.press("/", *words)
            until(f"only it by {words}", lambda: names(browser) == ["sought"])
            browser.press(
                ESCAPE, ESCAPE
            )  # the first clears the filter, the second leaves the field
            until("all again", lambda: len(names(browser)) > 1)
        browser.press("/", *TOPIC)
        until("by what they committed", lambda: set(BY_LAG) <= set(names(browser)))


def test_page_does_not_handle_scroll_keys(browser: Browser) -> None:
    browser.open(size=(1280, 300))
    until("rows", lambda: len(names(browser)) >= 3)
    browser.press(ARROW_DOWN)
    until("down", lambda: browser.ask("return window.scrollY > 0"))
    browser.press(ARROW_UP)
    until("up", lambda: browser.ask("return window.scrollY === 0"))
    browser.ask(
        "window.taken = [];"
        "window.addEventListener('keydown', (e) => window.taken.push([e.key, e.defaultPrevented]))"
    )
    arrows = [ARROW_DOWN, ARROW_UP, PAGE_DOWN, PAGE_UP, HOME, END, " "]
    for place in ("document.activeElement.blur()", f"document.querySelector({LINK!r}).focus()"):
        browser.ask(place)
        focus = browser.focused()
        browser.press(*arrows)
        assert browser.focused() == focus
    taken = browser.ask("return window.taken")
    assert len(taken) == 2 * len(arrows)
    assert [key for key, was_taken in taken if was_taken] == []
    browser.screen(DESK)


def test_page_header_and_title_name_the_cluster_and_the_broker(
    browser: Browser, broker: PageBroker
) -> None:
    browser.open()
    until("the broker is named", lambda: "broker 1" in browser.text(".top"))
    cluster = re.search(r"cluster (\S+)", browser.text(".top"))
    assert cluster
    assert browser.title() == f"Groups – broker 1, cluster {cluster[1]} – Muster"
    assert broker.bootstrap in browser.text(".top")
    browser.open("#/topics", size=PHONE)
    until("there too", lambda: cluster[1] in browser.text(".top"))


def test_durations_have_a_tooltip_with_utc_and_local_time(
    browser: Browser, broker: PageBroker
) -> None:
    with Group("confluent", broker.bootstrap, "timely", topics=[TOPIC]) as group:
        group.start("member")
        browser.driver.execute_cdp_cmd(
            "Emulation.setTimezoneOverride", {"timezoneId": "Asia/Kolkata"}
        )
        browser.open(group_page("timely"))
        shown = until("a rebalance", lambda: browser.text(".story time"))
        assert re.fullmatch(r"now|\d+ (s|min) ago", shown)
        title = browser.find(".story time")[0].get_attribute("title") or ""
        browser.driver.execute_cdp_cmd("Emulation.setTimezoneOverride", {"timezoneId": ""})
    utc, local = title.split("\n")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", utc)
    late = (int(utc[11:13]) * 60 + int(utc[14:16]) + 330) % (24 * 60)
    assert f"{late // 60 % 12 or 12}:{late % 60:02}:{utc[17:19]}" in local
    assert "your time" in local
    assert utc in browser.ask("return document.querySelector('.ribbon').textContent")
    assert re.findall(r"\S*\d\d:\d\d:\d\d\S*", browser.text("main")) == []
