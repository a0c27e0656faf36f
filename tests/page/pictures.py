"""`make pictures`: the pictures of the page in README, taken in Chromium of a broker at work."""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.page.browser import PHONE, browsing
from tests.page.scene import shop
from tests.waiting import until

IMAGES = Path(__file__).parents[2] / "docs" / "images"

PICTURES = (
    ("groups", "#/groups", (1180, 575), False),
    ("group", "#/groups/billing", (1180, 890), False),
    ("members", "#/groups/billing", (1180, 880), True),
    ("broker", "#/broker", (1180, 760), True),
    ("phone", "#/groups/billing", PHONE, False),
)
IS_KNOWN = """
    const text = document.querySelector('main').innerText;
    return !text.includes('–/s') && (text.includes('the oldest') || !text.includes('Partitions'));
"""
TO_MEMBERS = """
    const of = [...document.querySelectorAll('h2')].find((each) => each.innerText === 'Members');
    window.scrollTo(0, of.getBoundingClientRect().top - 70);
"""


def main() -> None:
    """Play the scene for about a minute and write docs/images/*.png."""
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, shop(Path(folder) / "data") as (broker, life):
        for group in life.groups:
            life.start(group, f"{group}-1")
        pause(6)
        life.start("billing", "billing-2")
        life.start("recommendations", "recommendations-2")
        pause(8)
        life.start("billing", "billing-3")
        pause(10)
        life.kill("billing")
        pause(9)
        life.start("billing", "billing-4")
        life.members["fraud-check"].pop().leave()
        pause(25)
        with browsing(broker.http) as browser:
            for name, place, size, dark in PICTURES:
                browser.open(place, size=size, dark=dark)
                until("rates and lag are known", lambda: browser.ask(IS_KNOWN), 10)
                if name == "members":
                    browser.ask(TO_MEMBERS)
                browser.driver.save_screenshot(str(IMAGES / f"{name}.png"))
            for line in browser.complaints():
                print(line)


def pause(seconds: float) -> None:
    """Let the shop live."""
    time.sleep(seconds)


if __name__ == "__main__":
    main()
