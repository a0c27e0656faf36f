"""`make pictures`: takes pictures of the page of a broker with problems, for the documentation."""

from __future__ import annotations

import io
import sys
import tempfile
import time
from pathlib import Path

from PIL import Image
from PIL.PngImagePlugin import PngInfo

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.page.browser import PHONE, Browser, browsing
from tests.page.scene import IN_TROUBLE, fleet
from tests.waiting import until

IMAGES = Path(__file__).parents[2] / "docs" / "images"

PICTURES = (
    ("groups", "#/groups", (1180, 900), False),
    ("group", "#/groups/billing", (1180, 1010), False),
    ("look", "#/groups/billing", (1180, 800), False),
    ("members", "#/groups/billing", (1180, 830), True),
    ("broker", "#/broker", (1180, 760), True),
    ("phone", "#/groups", PHONE, False),
)
IS_KNOWN = """
    const text = document.querySelector('main').innerText;
    const lag = text.includes('oldest unread') || !text.includes('Partitions');
    return !text.includes('–/s') && lag;
"""
TO_MEMBERS = """
    const of = [...document.querySelectorAll('h2')].find((each) => each.innerText === 'Members');
    window.scrollTo(0, of.getBoundingClientRect().top - 70);
"""
VERDICTS = """
    return Object.fromEntries([...document.querySelectorAll('tbody tr')].map(
        (row) => [row.dataset.key, row.querySelector('.verdict')?.innerText]));
"""
LOOK = "document.querySelector('.findings [data-look]').click()"


def main() -> None:
    """Runs the fleet of scene.py for about a minute, and writes docs/images/*.png."""
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, fleet(Path(folder) / "data") as (broker, life):
        life.open()
        for name in (
            "billing-1",
            "billing-2",
            "billing-3",
        ):  # billing then has two members billing-1
            pause(4)
            life.grow(name)
        pause(3)
        life.kill("billing")
        life.go_wrong()
        with browsing(broker.http) as browser:
            browser.open()
            until("all are judged", lambda: IN_TROUBLE.items() <= browser.ask(VERDICTS).items(), 60)
            for name, place, size, dark in PICTURES:
                browser.open(place, size=size, dark=dark)
                until("rates and lag are known", lambda: browser.ask(IS_KNOWN), 10)
                if name == "members":
                    browser.ask(TO_MEMBERS)
                if name == "look":
                    browser.ask(LOOK)
                    until("the record", lambda: "Headers" in browser.text("#look"), 10)
                take(browser, IMAGES / f"{name}.png")
            for line in browser.complaints():
                print(line)


def take(browser: Browser, path: Path, **about: str) -> None:
    """Writes a picture of the page to ``path``, with ``about`` as text in the metadata of the file.

    The picture is reduced to 256 colours, which makes the file a third as large.
    """
    told = PngInfo()
    for name, text in about.items():
        told.add_text(name, text)
    shown = Image.open(io.BytesIO(browser.driver.get_screenshot_as_png())).convert("RGB")
    few = shown.quantize(256, Image.Quantize.MAXCOVERAGE, kmeans=4, dither=Image.Dither.NONE)
    few.save(path, optimize=True, pnginfo=told)


def pause(seconds: float) -> None:
    time.sleep(seconds)


if __name__ == "__main__":
    main()
