"""Controls Debian's Chromium with selenium, for tests of the broker's web page."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from selenium import webdriver
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement

from tests.absent import program
from tests.waiting import until

PHONE = (390, 844)
DESK = (1280, 900)


class Browser:
    """A browser that shows the web page of the broker at ``address``."""

    def __init__(self, driver: webdriver.Chrome, address: str) -> None:
        self.driver = driver
        self.address = address

    def open(
        self, place: str = "#/groups", *, size: tuple[int, int] = DESK, dark: bool = False
    ) -> None:
        """Loads a view of the page if ``place`` starts with #, and otherwise the path ``place``.

        ``size`` is the screen size in pixels. The theme of the system is dark if ``dark`` is True,
        and light otherwise.
        """
        self.system(dark)
        self.screen(size)
        self.driver.get("about:blank")
        self.driver.get(f"http://{self.address}/{place}")
        if place.startswith("#"):
            until("the page is live", lambda: self.text("#link") == "live")
        until("the view is drawn", lambda: self.find("main h1"))

    def screen(self, size: tuple[int, int]) -> None:
        """Sets the width and height of the browser's viewport in pixels."""
        self._command(
            "Emulation.setDeviceMetricsOverride",
            width=size[0], height=size[1], deviceScaleFactor=1, mobile=size[0] < 700,
        )  # fmt: skip

    def system(self, dark: bool) -> None:
        value = "dark" if dark else "light"
        feature = {"name": "prefers-color-scheme", "value": value}
        self._command("Emulation.setEmulatedMedia", features=[feature])

    def _command(self, name: str, **arguments: Any) -> Any:
        return self.driver.execute_cdp_cmd(name, arguments)

    def find(self, selector: str) -> list[WebElement]:
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def text(self, selector: str = "main") -> str:
        """Returns the visible text of the first element that matches a CSS selector, or "" if
        nothing matches."""
        script = "const e = document.querySelector(arguments[0]); return e ? e.innerText : ''"
        return str(self.ask(script, selector))

    def ask(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    def press(self, *keys: str) -> None:
        for key in keys:
            ActionChains(self.driver, duration=0).send_keys(key).perform()

    def focused(self) -> str:
        """Returns the label or the text of the focused element, or BODY if no element has the
        focus."""
        script = (
            "const e = document.activeElement;"
            "if (e === document.body) return e.tagName;"  # the text of BODY is the whole page
            "return e.getAttribute('aria-label') || e.innerText || e.id || e.tagName"
        )
        return str(self.ask(script)).strip()

    @contextmanager
    def processor_time(self) -> Iterator[Callable[[], float]]:
        """Yields a function that returns the CPU time in ms that the main thread of the page has
        used."""

        def used_ms() -> float:
            metrics = self._command("Performance.getMetrics")["metrics"]
            return 1000 * sum(each["value"] for each in metrics if each["name"] == "TaskDuration")

        self._command("Performance.enable", timeDomain="threadTicks")
        try:
            yield used_ms
        finally:
            self._command("Performance.disable")

    def title(self) -> str:
        return str(self.ask("return document.title"))

    def complaints(self) -> list[str]:
        """Returns the new messages in the browser's console, such as violations of the content
        security policy. The console is empty afterwards."""
        return [json.dumps(entry) for entry in self.driver.get_log("browser")]  # type: ignore[no-untyped-call]


@contextmanager
def browsing(address: str) -> Iterator[Browser]:
    """Yields a headless browser, and closes the browser after the block."""
    options = webdriver.ChromeOptions()
    options.binary_location = program("chromium", "chromium")
    options.add_argument("--headless=new")
    options.add_argument("--disable-gpu")
    options.add_argument("--hide-scrollbars")
    options.add_argument("--disable-background-networking")
    options.add_argument("--force-color-profile=srgb")
    if os.geteuid() == 0:
        options.add_argument("--no-sandbox")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    service = webdriver.ChromeService(program("chromedriver", "chromium-driver"))
    driver = webdriver.Chrome(options=options, service=service)
    try:
        yield Browser(driver, address)
    finally:
        driver.quit()
