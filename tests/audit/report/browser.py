"""Debian's chromium, driven by its chromedriver, with every request it makes on record."""

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

_ARGUMENTS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


class Browser:
    """A page in chromium: what a reader sees and does, and what the page did."""

    def __init__(self, driver: Any):
        self.driver = driver

    def open(self, path: Path, fragment: str = "") -> None:
        """Load the page anew, also where only the fragment differs."""
        self.driver.get("about:blank")
        self.driver.get(path.as_uri() + fragment)

    def run(self, script: str, *arguments: Any) -> Any:
        """The value that a piece of JavaScript returns."""
        return self.driver.execute_script(script, *arguments)

    def find(self, selector: str) -> Any:
        return self.driver.find_element("css selector", selector)

    def visible(self, selector: str) -> list[Any]:
        return [
            found for found in self.driver.find_elements("css selector", selector) if found.is_displayed()
        ]

    def press(self, *keys: str) -> None:
        """Press keys wherever the focus is."""
        from selenium.webdriver import ActionChains

        ActionChains(self.driver).send_keys(*keys).perform()

    def resize(self, width: int, height: int, phone: bool) -> None:
        screen = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": phone}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)

    def emulate(self, **features: str) -> None:
        """Answer media queries: `emulate(prefers_color_scheme="dark")`."""
        named = [{"name": name.replace("_", "-"), "value": value} for name, value in features.items()]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": named})

    def allow_scripts(self, allowed: bool) -> None:
        self.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": not allowed})

    def console(self) -> list[dict[str, Any]]:
        """What the page wrote to the console since the last call, errors included."""
        return self.driver.get_log("browser")

    def requests(self) -> list[str]:
        """The addresses asked for since the last call."""
        messages = (json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance"))
        sent = (message for message in messages if message["method"] == "Network.requestWillBeSent")
        return [message["params"]["request"]["url"] for message in sent]


@contextmanager
def start(profile: Path) -> Iterator[Browser]:
    """A browser with the empty folder `profile` as its memory; skips the test where there is none."""
    from selenium import webdriver

    chromium, chromedriver = _programs()
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for argument in (*_ARGUMENTS, f"--user-data-dir={profile}"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(chromedriver))
    try:
        yield Browser(driver)
    finally:
        driver.quit()


def _programs() -> tuple[str, str]:
    found = shutil.which("chromium"), shutil.which("chromedriver")
    if found[0] is None or found[1] is None:
        reason = "chromium and chromedriver are needed: run scripts/install-browser"
        pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)
    return found  # pyright: ignore[reportReturnType]
