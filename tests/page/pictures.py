"""`make pictures`: the pictures of the page in README, taken in Chromium of a broker at work."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.page.browser import PHONE, browsing
from tests.page.scene import shop
from tests.waiting import until

IMAGES = Path(os.environ.get("MUSTER_IMAGES") or Path(__file__).parents[2] / "docs" / "images")


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
        pause(float(os.environ.get("MUSTER_SCENE_S", "25")))
        with browsing(broker.http) as browser:
            for name, place, size, dark in (
                ("groups", "#/groups", (1180, 560), False),
                ("group", "#/groups/billing", (1180, 980), False),
                ("group-dark", "#/groups/billing", (1180, 980), True),
                ("phone", "#/groups/billing", PHONE, False),
                ("phone-groups", "#/groups", PHONE, True),
                ("broker", "#/broker", (1180, 760), False),
                ("topics", "#/topics", (1180, 560), True),
                ("topic", "#/topics/orders", (1180, 860), False),
            ):
                browser.open(place, size=size, dark=dark)
                if place == "#/broker":
                    pause(3)
                browser.driver.save_screenshot(str(IMAGES / f"{name}.png"))
            for line in browser.complaints():
                print(line)
        hold = os.environ.get("MUSTER_HOLD")
        if hold:
            Path(hold).write_text(broker.http)
            until("the file is gone", lambda: not Path(hold).exists(), 1e6)


def pause(seconds: float) -> None:
    """Let the shop live."""
    time.sleep(seconds)


if __name__ == "__main__":
    main()
