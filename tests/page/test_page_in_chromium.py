"""The page in Chromium with real clients: live updates, keyboard, themes, and the width of a
phone."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.brokers import KIND
from tests.interop.cluster import Cluster, Feed
from tests.interop.group_members import Group
from tests.page.browser import PHONE, Browser
from tests.page.conftest import (
    INVOICES,
    PARTITIONS,
    TOPIC,
    asked,
    cells,
    group_page,
    rows,
    settled,
)
from tests.page.scene import PageBroker, commit
from tests.waiting import until

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(KIND != "muster", reason="the page is Muster's own"),
]

HOSTILE = "<script>document.title='owned'</script><img src=x onerror=alert(1)>\"'&"
SHOWN_WITHIN_MS = 2000
FILTER = "Filter by group, client, host, topic, verdict"
# Sets window.toldAt to the time at which the page first shows an expired session.
WATCH_THE_STORY = """
    const told = () => {
        const story = document.querySelector('.story');
        if (!window.toldAt && story && story.innerText.includes('A session expired'))
            window.toldAt = Date.now();
    };
    new MutationObserver(told).observe(
        document.body, { childList: true, characterData: true, subtree: true });
"""
TOO_WIDE = """
    return [...document.querySelectorAll('body *')]
        .filter((each) => !each.children.length)
        .filter((each) => each.getBoundingClientRect().right > arguments[0])
        .map((each) => each.outerHTML)
"""


@pytest.mark.smoke
def test_page_shows_joined_members_and_an_expired_session(
    browser: Browser, broker: PageBroker
) -> None:
    browser.open(group_page("billing"))
    assert "This group does not exist" in browser.text()
    with Group(
        "confluent", broker.bootstrap, "billing", topics=[INVOICES], session_timeout_ms=30_000
    ) as group:
        group.start("left-hand")
        doomed = group.start("right-hand", session_timeout_ms=1500)
        settled(group, broker, 2)
        until("both are shown", lambda: len(rows(browser, "Members")) == 2)
        until("both own some", lambda: browser.text("table").count(f"{INVOICES}:") == 2)
        left, right = sorted(rows(browser, "Members"))  # a member with a lag is listed first
        assert left.startswith("#1 left-hand")
        assert right.startswith("#2 right-hand")
        assert "127.0.0.1" in left
        assert "Stable" in browser.text(".title")

        browser.ask(WATCH_THE_STORY)
        doomed.kill()
        until("the page knows", lambda: "A session expired" in browser.text(".story"))
        path = "/api/groups/billing/journal?last=1"
        rebalance = asked(broker, path)["rebalances"][-1]
        assert rebalance["cause"] == "session_expired"
        told_ms = until("the page says when", lambda: browser.ask("return window.toldAt"))
        assert told_ms - rebalance["began_ms"] < SHOWN_WITHIN_MS
        story = browser.text(".story li")
        assert "session of right-hand-" in story
        assert re.search(r"expired after \d+(\.\d)? s", story)
        assert rebalance["began_ms"] - rebalance["last_heard_ms"] >= 1500
        settled(group, broker, 1)
        until("one is left", lambda: len(rows(browser, "Members")) == 1)
        assert len(browser.find("svg.ribbon rect.phase.join")) >= 2

        def all_is_committed() -> bool:
            group.members["left-hand"].commit()
            shown = rows(browser, "Partitions")
            return [
                re.match(rf"{INVOICES}:{n} OK #1 left-hand 10 10 0 read", row) is not None
                for n, row in enumerate(shown)
            ] == [True] * PARTITIONS

        until("its offsets, all read", all_is_committed)


def test_names_with_markup_are_shown_as_text(browser: Browser, broker: PageBroker) -> None:
    with Group("confluent", broker.bootstrap, HOSTILE, topics=[TOPIC]) as group:
        group.start(HOSTILE)
        settled(group, broker, 1)
        browser.open()
        until("it is listed", lambda: HOSTILE in browser.text("table"))
        until("the title", lambda: browser.title().startswith("Groups – broker 1, cluster "))
        link = next(each for each in browser.find("tbody a") if each.text == HOSTILE)
        link.click()
        until("it is opened", lambda: browser.text("h1") == HOSTILE)
        until("its member", lambda: HOSTILE in browser.text("table"))
        assert browser.title().startswith(f"{HOSTILE} – broker 1, cluster ")
        assert browser.find("main img, main script") == []


def test_content_security_policy_blocks_added_scripts_and_markup(chromium: Browser) -> None:
    chromium.open()
    refused = chromium.ask(
        "const s = document.createElement('script');"
        "try { s.text = 'window.owned = 1'; document.body.append(s); } catch (e) { return e.name }"
        "return window.owned ? 'ran' : 'silent'"
    )
    assert refused in ("TypeError", "silent")
    assert chromium.ask(
        "try { document.body.innerHTML = '<b>x</b>'; return 'set' } catch (e) { return e.name }"
    ) == "TypeError"  # fmt: skip
    assert chromium.complaints() != []


def test_every_view_is_reachable_with_the_keyboard(browser: Browser, broker: PageBroker) -> None:
    for name in ("keys-a", "keys-b"):
        commit(broker, name)
    browser.open()
    until(
        "both",
        lambda: len([row for row in rows(browser, "Consumer groups") if "keys-" in row]) == 2,
    )
    browser.press("\ue004")  # Tab
    assert browser.focused() == "Skip to content"
    order = []
    for _ in range(8):
        browser.press("\ue004")
        order.append(browser.focused())
    assert order[:5] == ["Muster, all groups", "Groups", "Transactions", "Topics", "Broker"]
    assert order[5].startswith("Theme: ")
    assert FILTER in order

    browser.press("/")
    assert browser.focused() == FILTER
    browser.press("k", "e", "y", "s", "-")
    until("two are left", lambda: len(rows(browser, "Consumer groups")) == 2)
    browser.press("\ue015")  # ArrowDown
    assert browser.focused() == "keys-a"
    browser.press("j")
    assert browser.focused() == "keys-b"
    browser.press("k", "j")
    assert browser.focused() == "keys-b"
    outline = browser.ask("return getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"
    browser.press("\ue007")  # Enter
    until("it opens", lambda: browser.text("h1") == "keys-b")
    browser.press("\ue00c")  # Escape
    until("back", lambda: browser.text("h1") == "Groups")
    browser.press("t")
    until("topics", lambda: browser.text("h1") == "Topics")
    browser.press("b")
    until("the broker", lambda: browser.text("h1").startswith("Broker "))
    browser.press("g")
    until("groups", lambda: browser.text("h1") == "Groups")


def test_focus_and_filter_are_kept_when_the_table_is_updated(
    browser: Browser, broker: PageBroker
) -> None:
    commit(broker, "focus-1")
    browser.open()
    until("it is there", lambda: "focus-1" in browser.text("table"))
    browser.press("/", *"focus", "\ue015")
    assert browser.focused() == "focus-1"
    commit(broker, "focus-0")
    until("the other one", lambda: "focus-0" in browser.text("table"))
    assert browser.focused() == "focus-1"
    assert browser.ask("return document.querySelector('input').value") == "focus"


def test_theme_follows_the_system_until_the_theme_button_is_clicked(browser: Browser) -> None:
    def brightness() -> int:
        color = browser.ask("return getComputedStyle(document.body).backgroundColor")
        return sum(int(part) for part in color[4:-1].split(","))

    browser.open(dark=False)
    assert brightness() > 600
    browser.open(dark=True)
    assert brightness() < 200
    button = browser.find("#theme")[0]
    button.click()
    assert (button.text, brightness() > 600) == ("Light", True)
    browser.open(dark=True)  # the page has stored the choice
    assert brightness() > 600
    button = browser.find("#theme")[0]
    button.click()
    assert (button.text, brightness() < 200) == ("Dark", True)
    browser.system(dark=False)
    assert brightness() < 200
    button.click()
    assert (button.text, brightness() > 600) == ("Auto", True)


def test_views_fit_the_width_of_a_phone(browser: Browser, broker: PageBroker) -> None:
    long = "a-group-whose-name-is-as-long-as-names-get-" + "x" * 120
    commit(broker, long)
    views = ("#/groups", group_page(long), "#/topics", f"#/topics/{TOPIC}", "#/broker")
    for place in (*views, "#/transactions", "#/transactions/nobody"):
        browser.open(place, size=PHONE)
        assert browser.ask("return document.documentElement.scrollWidth") <= PHONE[0], (
            place,
            browser.ask(TOO_WIDE, PHONE[0]),
        )
        least = browser.ask(
            "return Math.min(...[...document.querySelectorAll('nav a:not([hidden])')]"
            ".map((each) => each.getBoundingClientRect().height))"
        )
        assert least >= 30


def test_topic_and_broker_views_show_partitions_groups_and_requests(
    browser: Browser, broker: PageBroker
) -> None:
    commit(broker, "readers")
    browser.open("#/topics")
    until(
        "the topic", lambda: any(row.startswith(f"{TOPIC} 4 ") for row in rows(browser, "Topics"))
    )
    browser.open(f"#/topics/{TOPIC}")
    assert len(rows(browser, "Partitions")) == PARTITIONS
    readers = rows(browser, "Groups that read this topic")
    assert "readers OK Empty 0 1 9" in readers
    Feed(broker.bootstrap, TOPIC, PARTITIONS).send(4)
    until("11 records", lambda: rows(browser, "Partitions")[0].startswith("0 0 11 11"))
    browser.open("#/broker")
    until(
        "requests", lambda: any("OffsetCommit" in row for row in rows(browser, "Requests by API"))
    )
    assert "ready" in browser.text(".title")


def test_age_of_unread_records_is_updated_after_a_commit(
    browser: Browser, broker: PageBroker
) -> None:
    Cluster(broker.bootstrap).create_topic("fresh", 1)
    Feed(broker.bootstrap, "fresh", 1).send(1)
    commit(broker, "slow", 0, "fresh")
    browser.open("#/groups")

    def unread() -> str:
        return cells(browser, "Consumer groups", "slow").get("Unread for", "")

    until("how long a record is unread", lambda: re.match(r"(under )?\d+ m?s", unread()))
    commit(broker, "slow", 1, "fresh")
    until("all is read", lambda: unread().startswith("read"))


def test_page_reports_a_killed_broker_and_reconnects(chromium: Browser, tmp_path: Path) -> None:
    other = PageBroker(tmp_path / "data")
    other.start()
    held, chromium.address = chromium.address, other.http
    try:
        chromium.open()
        other.kill()
        until("it says so", lambda: "reach the broker" in chromium.text("#link"))
        other.start()
        until("it is live again", lambda: chromium.text("#link") == "live")
    finally:
        chromium.address = held
        other.kill()
        chromium.complaints()


def test_rebalances_older_than_the_broker_start_are_marked(
    chromium: Browser, tmp_path: Path
) -> None:
    other = PageBroker(tmp_path / "data")
    other.start()
    held, chromium.address = chromium.address, other.http
    try:
        Cluster(other.bootstrap).create_topic(TOPIC, 1)
        with Group("confluent", other.bootstrap, "early", topics=[TOPIC]) as group:
            group.start("bird")
            settled(group, other, 1)
            chromium.open(group_page("early"))
            until("it joined", lambda: "A member joined" in chromium.text(".story"))
            assert "earlier run" not in chromium.text(".story")
        other.stop()
        other.start()
        chromium.open(group_page("early"))
        until("it is kept", lambda: "before the last restart" in chromium.text(".story"))
    finally:
        chromium.address = held
        other.kill()
        chromium.complaints()
