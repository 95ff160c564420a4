"""The picture of the first tutorial: the top of a report page, as a headless Chromium shows it.

python docs/screenshot.py REPORT.html [docs/images/report.png] [--width 1400] [--height 2700] [--dark] [--anchor ID]
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.support.ui import WebDriverWait

QUIET = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--hide-scrollbars",
)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("report", type=Path)
    parser.add_argument("picture", type=Path, nargs="?", default=Path(__file__).parent / "images/report.png")
    parser.add_argument("--width", type=int, default=1400)
    parser.add_argument("--height", type=int, default=2700)
    parser.add_argument("--dark", action="store_true")
    parser.add_argument("--anchor", help="id of the part of the page to begin with")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="nearfield-browser-") as folder:
        options = webdriver.ChromeOptions()
        options.binary_location = "/usr/bin/chromium"
        for flag in (*QUIET, f"--user-data-dir={folder}"):
            options.add_argument(flag)
        browser = webdriver.Chrome(options=options, service=Service("/usr/bin/chromedriver"))
        try:
            take(browser, arguments)
        finally:
            browser.quit()
    print(arguments.picture)


def take(browser: webdriver.Chrome, arguments: argparse.Namespace) -> None:
    """The size is that of the page, not of a window, which cannot be narrower than 500 px."""
    size = {"width": arguments.width, "height": arguments.height, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    media = {"prefers-color-scheme": "dark" if arguments.dark else "light", "prefers-reduced-motion": "reduce"}
    features = [{"name": name, "value": value} for name, value in media.items()]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    browser.get(arguments.report.resolve().as_uri())
    ready = "return !document.getElementById('charts') || document.documentElement.dataset.ready"
    WebDriverWait(browser, 30).until(lambda b: b.execute_script(ready))
    if arguments.anchor:
        browser.execute_script("document.getElementById(arguments[0]).scrollIntoView()", arguments.anchor)
    browser.save_screenshot(str(arguments.picture))


if __name__ == "__main__":
    main()
