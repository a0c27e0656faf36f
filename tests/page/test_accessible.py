"""axe-core finds no violation in any view, with both themes, on a desktop and on a phone."""

from __future__ import annotations

import pytest

from tests.brokers import KIND
from tests.interop.group_members import Group
from tests.page.axe import violations
from tests.page.browser import DESK, PHONE, Browser
from tests.page.conftest import TOPIC, group_page, rows
from tests.page.scene import PageBroker, commit
from tests.waiting import until

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(KIND != "muster", reason="the page is Muster's own"),
]

TEAM = group_page("team")
RUNBOOK = "runbooks/MusterGroupStalled?group=team"
VIEWS = ("#/groups", TEAM, "#/groups/nobody", "#/topics", f"#/topics/{TOPIC}", "#/broker", RUNBOOK)
OPEN = "document.querySelectorAll('details').forEach((each) => { each.open = true })"


@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_page_views_have_no_accessibility_violations(
    browser: Browser, broker: PageBroker, size: tuple[int, int], dark: bool
) -> None:
    commit(broker, "behind", 2)
    with Group("confluent", broker.bootstrap, "team", topics=[TOPIC]) as group:
        group.start("member")
        for view in VIEWS:
            browser.open(view, size=size, dark=dark)
            if view == TEAM:
                until("its member", lambda: len(rows(browser, "Members")) == 1)
                browser.ask(OPEN)
            assert violations(browser) == [], view


def test_axe_reports_planted_accessibility_violations(browser: Browser) -> None:
    """The test repeats its check, because the page can remove a planted heading when it redraws a
    view."""
    browser.open()

    def found() -> set[str]:
        browser.ask(
            """
            const faint = document.createElement('h4');
            faint.textContent = 'hardly to be read, and two levels too low';
            faint.style.color = '#bbb';
            document.querySelector('main').append(faint);
            """
        )
        return {line.split(":")[0] for line in violations(browser)}

    until("axe finds both", lambda: found() == {"color-contrast", "heading-order"})
