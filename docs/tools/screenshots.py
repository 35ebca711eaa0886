"""Pictures of the built site in a real browser: `python docs/tools/screenshots.py SITE OUT [PAGE ...]`.

Each page at 1280 and at 390 pixels wide, light and dark, opened from the disk; and the search, typed into as
a reader does. Needs chromium and chromedriver (`scripts/install-browser`).
"""

import shutil
import sys
import time
from pathlib import Path

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By

WIDTHS = {"desktop": (1280, 900), "phone": (390, 844)}
PAGES = (
    "index",
    "which",
    "tutorials/index",
    "tutorials/compress_a_handbook",
    "tutorials/tune_a_classifier",
    "tutorials/forecast_a_thousand_series",
    "tutorials/syntax_before_semantics",
    "tutorials/audit_a_theorem",
    "forecast",
    "audit",
    "audit-results",
    "papers",
    "repairs-p1",
    "repairs-p3",
    "reference/index",
    "reference/kernels",
    "benchmarks",
    "calls",
    "extend/index",
    "extend/forecaster",
    "verdicts",
)
TALLEST = 2600


def browser() -> webdriver.Chrome:
    options = webdriver.ChromeOptions()
    for flag in ("--headless=new", "--no-sandbox", "--hide-scrollbars", "--allow-file-access-from-files"):
        options.add_argument(flag)
    driver = shutil.which("chromedriver")
    return webdriver.Chrome(options, Service(driver) if driver else None)


def show(driver: webdriver.Chrome, page: Path, size: tuple[int, int], dark: bool) -> None:
    scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
    metrics = {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": size[0] < 600}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    driver.get(page.resolve().as_uri())
    driver.execute_script("localStorage.clear()")  # the reader's choice of light or dark
    driver.refresh()
    time.sleep(0.3)


def too_wide(driver: webdriver.Chrome, width: int) -> int:
    """Return by how many pixels the page is wider than the screen; a phone would zoom out to show it."""
    return int(driver.execute_script("return document.documentElement.scrollWidth")) - width


def picture(driver: webdriver.Chrome, size: tuple[int, int], place: Path) -> None:
    """The page from its top, at most TALLEST pixels of it."""
    height = min(TALLEST, int(driver.execute_script("return document.documentElement.scrollHeight")))
    metrics = {"width": size[0], "height": height, "deviceScaleFactor": 1, "mobile": size[0] < 600}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    time.sleep(0.2)
    place.parent.mkdir(parents=True, exist_ok=True)
    driver.save_screenshot(str(place))


def search(driver: webdriver.Chrome, site: Path, words: str, place: Path) -> list[str]:
    """The titles that the search finds, opened from the disk."""
    show(driver, site / "index.html", WIDTHS["desktop"], dark=False)
    box = driver.find_element(By.CSS_SELECTOR, "input.md-search__input")
    box.click()
    box.send_keys(words)
    for _ in range(40):
        time.sleep(0.25)
        found = driver.find_elements(By.CSS_SELECTOR, ".md-search-result__item h1")
        if found:
            break
    driver.save_screenshot(str(place))
    return [title.text for title in found]


def main(site: str, out: str, *pages: str) -> None:
    driver = browser()
    try:
        for page in pages or PAGES:
            for device, size in WIDTHS.items():
                for dark in (False, True):
                    show(driver, Path(site, f"{page}.html"), size, dark)
                    over = too_wide(driver, size[0])
                    name = f"{page.replace('/', '-')}-{device}-{'dark' if dark else 'light'}.png"
                    picture(driver, size, Path(out, name))
                    print(name, f"is {over} pixels too wide" if over > 0 else "", flush=True)
        print("search:", search(driver, Path(site), "tangent kernel", Path(out, "search.png")))
    finally:
        driver.quit()


if __name__ == "__main__":
    main(*sys.argv[1:])
