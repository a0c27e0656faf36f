"""Tests of verdicts on the page, of findings with their commands, and of the dialog that shows a
record."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Iterator
from urllib.parse import quote

import pytest
from confluent_kafka import Producer

from tests.brokers import KIND
from tests.interop.cluster import Cluster, Feed
from tests.interop.group_members import Group
from tests.page.axe import violations
from tests.page.browser import DESK, PHONE, Browser
from tests.page.conftest import PARTITIONS, TOPIC, cells, group_page, rows, settled
from tests.page.scene import PageBroker, commit
from tests.waiting import until

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(KIND != "muster", reason="the page is Muster's own"),
]

GROUPS = "Consumer groups"
SOON = {f"group.verdict.{rule}.ms": "1000" for rule in ("stalled", "stuck.record", "abandoned")}
OUT, LEFT, STUCK = "z-out-of-range", "y-left-behind", "x-stuck"
HOSTILE = "-<b onclick=alert(1)>'$(touch x)`\u202e\n--execute"
LETTERS = "letters"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageBroker]:
    """Yields a broker with short verdict thresholds, three groups with problems, and 60 groups
    without problems."""
    broker = PageBroker(tmp_path_factory.mktemp("verdicts") / "data", SOON)
    broker.start()
    for topic in (TOPIC, LETTERS):
        Cluster(broker.bootstrap).create_topic(topic, PARTITIONS)
    Feed(broker.bootstrap, TOPIC, PARTITIONS).send(10 * PARTITIONS)
    for number in range(60):
        commit(broker, f"fine-{number:02}", 10)
    commit(broker, OUT, 60_000)
    commit(broker, LEFT, 3)
    with Group("confluent", broker.bootstrap, STUCK, topics=[TOPIC]) as group:
        group.start("stuck")
        yield broker
    assert broker.stop() == 0, broker.tail()


def verdict(browser: Browser, group: str) -> str:
    return cells(browser, GROUPS, group).get("Verdict", "")


def judged(browser: Browser) -> None:
    """Waits until the page shows the verdicts of the three groups with problems."""
    for group, word in ((OUT, "OUT_OF_RANGE"), (STUCK, "STALLED"), (LEFT, "ABANDONED")):
        until(f"{group} is {word}", lambda: verdict(browser, group).startswith(word))  # noqa: B023


def test_groups_with_problems_are_listed_first(browser: Browser) -> None:
    browser.open()
    judged(browser)
    shown = [row.split()[0] for row in rows(browser, GROUPS)]
    assert [name for name in shown if name in (OUT, STUCK, LEFT)] == [OUT, STUCK, LEFT]
    assert not any(name.startswith("fine-") for name in shown[: shown.index(LEFT)])
    assert len(shown) == 50
    assert re.search(r", \d+ not OK", browser.text(".sub"))
    assert "for " in verdict(browser, STUCK)
    assert f"{TOPIC}:0-3" in verdict(browser, STUCK)
    assert verdict(browser, "fine-00") == "OK"
    browser.press("/", *"stalled")
    until("by its verdict", lambda: [row.split()[0] for row in rows(browser, GROUPS)] == [STUCK])


def test_finding_has_advice_and_a_command_that_can_be_copied(
    browser: Browser, broker: PageBroker
) -> None:
    browser.driver.execute_cdp_cmd(
        "Browser.grantPermissions",
        {"permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]},
    )
    browser.open(group_page(STUCK))
    until("it is found", lambda: "STALLED" in browser.text(".findings"))
    found = browser.text(".findings")
    assert re.search(r"STALLED\nfor (\d+ s|\d+ min)\n", found)
    assert "member #1 stuck, host 127.0.0.1" in found
    assert "is alive" in found
    assert "evict the member" in found
    command = browser.text(".findings code")
    words = shlex.split(command)
    assert words[:5] == ["muster", "groups", "evict", "--bootstrap", broker.bootstrap]
    assert words[5] == STUCK
    assert words[6].startswith("stuck-")
    browser.find(".findings [data-copy]")[0].click()
    until("it says so", lambda: browser.text(".findings [data-copy]") == "Copied")
    copied = browser.driver.execute_async_script(
        "navigator.clipboard.readText().then(arguments[0], (e) => arguments[0](String(e)))"
    )
    assert copied == command
    until("and is ready again", lambda: browser.text(".findings [data-copy]") == "Copy")


def test_command_is_selected_as_text_when_the_clipboard_is_not_available(browser: Browser) -> None:
    """Browsers allow no clipboard access to a page that was loaded over HTTP from another
    machine."""
    browser.open(group_page(STUCK))
    until("it is found", lambda: browser.find(".findings [data-copy]"))
    browser.ask("Object.defineProperty(navigator, 'clipboard', { value: undefined })")
    browser.find(".findings [data-copy]")[0].click()
    until("it says how", lambda: browser.text(".findings [data-copy]") == "Selected: press Ctrl+C")
    assert browser.ask("return String(getSelection())") == browser.text(".findings code")


def test_partition_with_an_offset_outside_its_log_is_shown_with_the_reason(
    browser: Browser,
) -> None:
    browser.open(group_page(OUT))
    until("judged", lambda: "OUT_OF_RANGE" in browser.text(".findings"))
    row = cells(browser, "Partitions", f"{TOPIC}\n0")
    assert (row["Verdict"], row["Committed"], row["Lag"]) == ("OUT_OF_RANGE", "60,000", "-59,990")
    browser.find(f"[aria-label='Show the record at {TOPIC}:0']")[0].click()
    until(
        "why there is none",
        lambda: "ends at 10; offset 60,000 does not exist yet" in browser.text("#look"),
    )
    browser.press("\ue00c")  # Escape closes the dialog and does not leave the group
    until("closed", lambda: not browser.find("#look[open]"))
    assert browser.text("h1") == OUT

    browser.open(group_page(STUCK))
    until("judged", lambda: "STALLED" in browser.text(".findings"))
    members = cells(
        browser, "Members", browser.ask("return document.querySelector('.member code').textContent")
    )
    assert members["Verdict"] == "STALLED"
    assert cells(browser, "Partitions", f"{TOPIC}\n2")["Committed"] == "never"


RECORDS = [
    (b"key-1", b'{"total": 12.5, "of": ["tea"]}', [("from", b"till")]),
    (b"\xff\x00<i>", b"<img src=x onerror='document.title=1'><script>alert(1)</script>", []),
    (None, b"\x00\x01\x02 not text", [("<b>name</b>", b"<b>value</b>"), ("none", None)]),
    (b"gone", None, []),
    (b"large", b"x" * 10_000, []),
]


@pytest.fixture(scope="module")
def letters(broker: PageBroker) -> None:
    """Produces five kinds of records to partition 1: JSON, markup, bytes, a tombstone and a large
    value."""
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for key, value, headers in RECORDS:
        producer.produce(LETTERS, value, key, partition=1, headers=headers)
    assert producer.flush(20) == 0


def look(browser: Browser, broker: PageBroker, offset: int) -> str:
    """Opens the dialog that shows the record at ``offset``, and returns the text of the dialog."""
    group = f"reader-{offset}"
    commit(broker, group, offset, LETTERS, 1)
    browser.open(group_page(group))
    button = f"[aria-label='Show the record at {LETTERS}:1']"
    until("a button", lambda: browser.find(button))
    browser.find(button)[0].click()
    until("the record", lambda: "Commands" in browser.text("#look"))
    return browser.text("#look")


@pytest.mark.usefixtures("letters")
def test_record_dialog_shows_json_text_hex_and_commands(
    browser: Browser, broker: PageBroker
) -> None:
    shown = look(browser, broker, 0)
    assert f"{LETTERS}:1 at 0" in shown
    assert '"total": 12.5,\n  "of": [' in shown
    assert "key-1" in shown
    assert "from\ntill" in " ".join(shown.split(" "))
    browser.ask("[...document.querySelectorAll('#look label')].at(-1).click()")
    hexed = browser.text("#look pre[aria-label=Value]")
    assert hexed.startswith("0000  7b 22 74 6f 74 61 6c 22 3a 20")
    commands = [shlex.split(each.text) for each in browser.find("#look code")]
    at = ["--bootstrap", broker.bootstrap]
    where = ["--offset", "0", "--max", "1", f"{LETTERS}:1"]
    assert commands[0] == ["muster", "consume", *at, *where]
    past = [*at, "--topic", f"{LETTERS}:1", "--to-offset", "1", "reader-0"]
    assert ["muster", "groups", "reset", *past] in commands


@pytest.mark.usefixtures("letters")
def test_record_dialog_shows_markup_as_text_and_bytes_as_hex(
    browser: Browser, broker: PageBroker
) -> None:
    shown = look(browser, broker, 1)
    assert RECORDS[1][1] is not None
    assert RECORDS[1][1].decode() in shown
    assert "0000  ff 00 3c 69 3e" in shown
    shown = look(browser, broker, 2)
    assert "<b>name</b>" in shown
    assert "<b>value</b>" in shown
    assert "0000  00 01 02 20 6e 6f 74" in shown
    assert "none: a tombstone" in look(browser, broker, 3)
    shown = look(browser, broker, 4)
    assert "only the beginning is shown" in shown
    assert 4000 < shown.count("x") < 4200
    assert browser.find("#look img, #look script, #look i") == []
    assert "Muster" in browser.title()


def test_commands_on_the_page_quote_group_names_for_the_shell(
    browser: Browser, broker: PageBroker
) -> None:
    commit(broker, HOSTILE, 60_000)
    browser.open("#/groups/" + quote(HOSTILE, safe=""))
    until("judged", lambda: browser.find(".findings code"))
    found = browser.find(".findings code, .commands code")
    assert len(found) == 4
    for element in found:
        text = browser.ask("return arguments[0].textContent", element)
        assert "\n" not in text
        assert "\u202e" not in text
        assert unquoted_by_bash(text)[-1] == HOSTILE
    assert browser.find("main b[onclick]") == []


@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.usefixtures("letters")
def test_verdicts_findings_and_record_dialog_are_accessible(
    browser: Browser, broker: PageBroker, size: tuple[int, int], dark: bool
) -> None:
    for place in ("#/groups", *map(group_page, (OUT, STUCK, LEFT))):
        browser.open(place, size=size, dark=dark)
        until("judged", lambda: browser.find(".verdict.grave, .verdict.mild"))
        assert violations(browser) == [], place
        assert browser.ask("return document.documentElement.scrollWidth") <= size[0], place
    look(browser, broker, 0)
    browser.screen(size)
    browser.system(dark)
    assert violations(browser) == []
    assert browser.ask("return document.documentElement.scrollWidth") <= size[0]


def test_members_with_equal_client_id_and_host_have_different_numbers(
    browser: Browser, broker: PageBroker
) -> None:
    with Group("confluent", broker.bootstrap, "twins", topics=[TOPIC]) as group:
        group.start("twin")
        group.start("twin")
        settled(group, broker, 2)
        browser.open(group_page("twins"))
        members = sorted(row.split()[:2] for row in rows(browser, "Members"))
        assert members == [["#1", "twin"], ["#2", "twin"]]
        browser.find(".story summary")[0].click()
        until("who got what", lambda: browser.text(".story").count(f"got {TOPIC}:") == 2)
        told = browser.text(".story")
        assert "#1 twin on 127.0.0.1 got" in told
        assert "#2 twin on 127.0.0.1 got" in told
        browser.find(".story .ids summary")[0].click()
        ids = browser.ask(
            "return [...document.querySelectorAll('.story .ids')[0].querySelectorAll('code')]"
            ".map((each) => each.textContent)"
        )
        assert len(set(ids)) == 2
        assert all(len(each) == len("twin-") + 36 for each in ids)


def unquoted_by_bash(command: str) -> list[str]:
    """Returns the words into which bash splits a command."""
    script = f"set -- {command}; printf '%s\\0' \"$@\""
    done = subprocess.run(["bash", "-c", script], capture_output=True, check=True, timeout=10)
    return done.stdout.decode().split("\0")[:-1]
