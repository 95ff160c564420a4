"""Draws the plots of an HTML page as SVG files in a headless Chromium or Chrome, as the page's own buttons do. A
browser is required, because plotly draws in JavaScript."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from urllib.parse import unquote

from nearfield.base.errors import MeasurementError, UsageError
from nearfield.base.owned_folder import OwnedFolder

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "microsoft-edge")
BROWSER_FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--virtual-time-budget=3600000", "--dump-dom",
)  # fmt: skip
MAX_BROWSER_S = 600
_WRITE_PICTURES_SCRIPT = """<script>nearfieldPictures().then((pictures) => {
  const place = document.createElement("pre");
  place.id = "pictures";
  place.textContent = encodeURIComponent(JSON.stringify(pictures));
  document.body.append(place);
});</script>"""


def draw_pictures(page: str) -> dict[str, str]:
    """Returns a dict from file name to SVG, with an entry for each plot of a page and each combination of its
    options. Raises UsageError if no browser is installed, and MeasurementError if the browser fails to draw the
    plots."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        raise UsageError(
            "drawing SVG needs a browser, and none is installed: " + ", ".join(BROWSERS),
            "Install one of them, or open the page in any browser elsewhere and click SVG at a plot.",
        )
    with OwnedFolder("nearfield-browser-") as folder:
        file = Path(folder) / "page.html"
        file.write_text(page.replace("</body>", f"{_WRITE_PICTURES_SCRIPT}</body>"), encoding="utf-8", errors="replace")
        printed_page = _run_and_capture([browser, *BROWSER_FLAGS, f"--user-data-dir={folder}/browser", file.as_uri()])
    match = re.search(r'<pre id="pictures">([^<]*)</pre>', printed_page)
    if not match:
        raise MeasurementError(
            f"{browser} did not draw the plots", "Open the page in a browser and click SVG at a plot."
        )
    return dict(json.loads(unquote(match[1])))


def _run_and_capture(command: list[str]) -> str:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=MAX_BROWSER_S, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired:
        raise MeasurementError(
            f"{command[0]} did not end within {MAX_BROWSER_S} s", "Try it when the machine is quiet."
        ) from None
    return done.stdout
