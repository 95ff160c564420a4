"""The report in a real headless Chromium: does it load without errors and without the network, are plots there, do
clicks work, does it fit on a phone?"""

from __future__ import annotations

import base64
import json
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from report_profiles import HERE, KIB, message, one_rule_judged, profile

from nearfield.profile import load
from nearfield.report import comparison
from nearfield.report.page import render_report, render_summary
from nearfield.reproduce import page as claims_page
from nearfield.reproduce.outcome import (
    JudgedClaim,
    JudgedPaper,
    JudgedStatement,
    PlottedCurve,
    RecordSeries,
    Reproduction,
    ShownEvidence,
)
from nearfield.reproduce.score import score_papers
from nearfield.rules.schema import load_rules
from nearfield.ui.html import write_page

webdriver = pytest.importorskip("selenium.webdriver")
CHROMIUM, DRIVER = Path("/usr/bin/chromium"), Path("/usr/bin/chromedriver")
FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--window-size=1400,1000",
)  # fmt: skip
DATA = Path(__file__).parents[1] / "data"

pytestmark = [
    pytest.mark.skipif(not (CHROMIUM.exists() and DRIVER.exists()), reason=f"no {CHROMIUM} and {DRIVER}"),
]


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    options = webdriver.ChromeOptions()
    options.binary_location = str(CHROMIUM)
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('browser')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(str(DRIVER)))
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def real_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rules = load_rules(DATA / "rules" / "openmpi-5.0.11.toml")
    return write_page(
        tmp_path_factory.mktemp("page") / "report.html", render_report(load(DATA / "epyc-vm-quiet"), rules)
    )


@pytest.fixture(scope="module")
def two_places_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    far = {"distance": "same-node", "pair": "0-8"}
    rows = [message(s, s * f, **p) for p, f in ((HERE, 1), (far, 2)) for s in (KIB, 2 * KIB, 4 * KIB)]
    return write_page(tmp_path_factory.mktemp("page") / "report.html", render_report(profile(rows, complete=False)))


@pytest.fixture(scope="module")
def comparison_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    profiles = [load(DATA / name) for name in ("epyc-vm-quiet", "epyc-vm-busy")]
    return write_page(tmp_path_factory.mktemp("page") / "comparison.html", comparison.render_comparison(profiles))


def show(browser: webdriver.Chrome, page: Path, width: int = 1400, scheme: str = "light") -> None:
    size = {"width": width, "height": 1000, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    wanted = {"prefers-color-scheme": scheme, "prefers-reduced-motion": "reduce"}
    features = [{"name": name, "value": value} for name, value in wanted.items()]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    for log in ("browser", "performance"):
        browser.get_log(log)
    storage = {"origin": "file://", "storageTypes": "local_storage"}
    browser.execute_cdp_cmd("Storage.clearDataForOrigin", storage)
    browser.get(page.as_uri())
    wait(lambda: browser.execute_script("return document.readyState") == "complete")


def wait(condition, seconds: float = 20) -> None:  # noqa: ANN001
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.05)


def script(browser: webdriver.Chrome, code: str) -> object:
    return browser.execute_script(f"return {code}")


def complaints(browser: webdriver.Chrome) -> list[str]:
    return [line["message"] for line in browser.get_log("browser") if line["level"] in ("SEVERE", "WARNING")]


def test_plots_that_were_folded_are_drawn_in_full(browser: webdriver.Chrome, tmp_path: Path) -> None:
    """The page of a useless profile is folded: is it short, and are unfolded plots as wide as the page?"""
    page = write_page(tmp_path / "busy.html", render_report(load(DATA / "epyc-vm-busy")))
    show(browser, page)
    assert browser.execute_script("return document.body.scrollHeight") <= 1000
    browser.execute_script("document.querySelector('.useless').open = true")
    widths = "return [...document.querySelectorAll('.plotly-place:not([hidden]) .main-svg')].map((p) => p.clientWidth)"
    wait(lambda: min(browser.execute_script(widths), default=0) > 800)
    assert complaints(browser) == []


def test_it_loads_without_an_error_and_without_the_network(browser: webdriver.Chrome, real_page: Path) -> None:
    show(browser, real_page)
    assert complaints(browser) == []
    events = [json.loads(line["message"])["message"] for line in browser.get_log("performance")]
    requested_urls = [e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"]
    assert requested_urls and all(url.startswith(("file:", "data:", "blob:")) for url in requested_urls)


@pytest.mark.parametrize("which", ["real_page", "comparison_page"])
def test_every_chart_has_a_plot_with_points(
    browser: webdriver.Chrome, which: str, request: pytest.FixtureRequest
) -> None:
    show(browser, request.getfixturevalue(which))
    assert complaints(browser) == []
    charts = browser.find_elements("css selector", "figure.plot")
    assert len(charts) >= 5
    for chart in charts:
        points = chart.find_elements("css selector", ".plotly-place svg .points path, .plotly-place svg .point path")
        assert points, chart.get_attribute("id")


def test_findings_and_rules_are_on_top(browser: webdriver.Chrome, tmp_path: Path) -> None:
    show(browser, write_page(tmp_path / "report.html", render_report(one_rule_judged())))
    assert browser.find_elements("css selector", "#findings .finding")
    assert browser.find_elements("css selector", "#rules li")
    tops = [script(browser, f"document.getElementById('{i}').offsetTop") for i in ("findings", "rules", "s-pingpong")]
    assert tops == sorted(tops)


def test_the_theme_button_changes_the_page_and_the_plots(browser: webdriver.Chrome, real_page: Path) -> None:
    show(browser, real_page, scheme="dark")
    line = "document.querySelector('#pingpong .scatterlayer .js-line:not([style*=\"width: 0\"])').style.stroke"
    paper = "getComputedStyle(document.body).backgroundColor"
    before = script(browser, paper), script(browser, line)
    assert before[0] == "rgb(20, 23, 26)"
    browser.find_element("id", "theme").click()
    assert script(browser, paper) == "rgb(255, 255, 255)"
    wait(lambda: script(browser, line) != before[1])


def test_the_page_of_claims_has_the_same_themes(browser: webdriver.Chrome, tmp_path: Path) -> None:
    """Is it dark where the system is, light at a click, its sketches, too, without an error and a plot library? Does a
    narrow window hold all but tables that scroll by themselves, is a cell of each claim on its first screen, and does a
    click unfold records?"""
    points = [(float(1 << i), 100.0 + i) for i in range(12)]
    series = RecordSeries(
        profile="leo3", metric="time", unit="ns", where={"state": "invalid"}, by="size_bytes", points=points
    )
    shown = ShownEvidence(
        by="size_bytes", kind="ns", lines=[PlottedCurve(name="ours", points=points)], records=[series]
    )
    one = JudgedStatement(
        says="it is so", paper="so", ours="so", holds=True, is_number=True, number=(100, 100), shown=shown
    )
    says = "Messages of exclusive data save most just below the last-level cache, on both sides of a call"
    claim = JudgedClaim(
        id="S0.1",
        says=says,
        where="section IV-B.2, figures 3 and 4",
        weight=3,
        verdict="within",
        score=1.0,
        statements=[one],
    )
    found = Reproduction(
        nearfield="0", created="2026-01-02", command="nearfield reproduce", quick=True, complete=True, seconds=1,
        papers=(papers := [JudgedPaper(name="S0", title="a paper", reading="all of it", claims=[claim], chosen=[])]),
        score=score_papers(papers),
    )  # fmt: skip
    path = write_page(tmp_path / "report.html", claims_page.render_page(found, tmp_path))
    show(browser, path, scheme="dark", width=380)
    cell = browser.find_element("css selector", ".strip a.cell.within")
    assert cell.get_attribute("href").endswith("#S0.1") and cell.rect["y"] < 700
    paper = "getComputedStyle(document.body).backgroundColor"
    line = "getComputedStyle(document.querySelector('.sketch polyline')).stroke"
    before = script(browser, line)
    assert script(browser, paper) == "rgb(20, 23, 26)"
    browser.find_element("id", "theme").click()
    assert script(browser, paper) == "rgb(255, 255, 255)" and script(browser, line) != before
    table = browser.find_element("css selector", ".behind table")
    assert not table.is_displayed()
    browser.find_element("css selector", ".behind summary").click()
    assert table.is_displayed() and script(browser, "document.body.scrollWidth <= innerWidth")
    assert complaints(browser) == [] and (tmp_path / "report.html").stat().st_size < 100_000


def test_names_and_numbers_have_room_on_a_laptop(browser: webdriver.Chrome, real_page: Path) -> None:
    """At 1280 px: are facts not set a letter a line beside a long name, and is no column of the machine cut off?"""
    show(browser, real_page, width=1280)
    facts = "[...document.querySelectorAll('.facts dd')]"
    assert script(browser, f"Math.min(...{facts}.map(d => d.clientWidth))") > 150
    assert script(
        browser, "[...document.querySelectorAll('#machine .scroll')].every(s => s.scrollWidth <= s.clientWidth)"
    )


@pytest.mark.parametrize("profile_name", ["epyc-vm-quiet", "epyc-vm-busy"])
def test_the_summary_prints_on_one_sheet(browser: webdriver.Chrome, tmp_path: Path, profile_name: str) -> None:
    """With a warning, and with three long findings: is all of it on one page, with the plot?"""
    rules = load_rules(DATA / "rules" / "openmpi-5.0.11.toml") if profile_name == "epyc-vm-quiet" else None
    show(browser, write_page(tmp_path / "summary.html", render_summary(load(DATA / profile_name), rules)))
    assert complaints(browser) == []
    assert len(browser.find_elements("css selector", ".finding")) == 3
    assert len(browser.find_elements("css selector", ".plotly-place svg .points")) > 0
    printed = browser.execute_cdp_cmd("Page.printToPDF", {"preferCSSPageSize": True})["data"]
    assert len(re.findall(rb"/Type\s*/Page\b", base64.b64decode(printed))) == 1


def test_a_choice_redraws_the_plot(browser: webdriver.Chrome, real_page: Path) -> None:
    show(browser, real_page)
    title = "document.querySelector('#pingpong .ytitle').textContent"
    assert script(browser, title) == "bandwidth (GB/s)"
    browser.find_element("xpath", "//figure[@id='pingpong']//button[text()='time']").click()
    wait(lambda: script(browser, title) == "time")
    assert complaints(browser) == []


def test_the_table_beneath_a_plot_has_the_values(browser: webdriver.Chrome, real_page: Path) -> None:
    show(browser, real_page)
    browser.find_element("css selector", "#pingpong details summary").click()
    wait(lambda: len(browser.find_elements("css selector", "#pingpong details tbody tr")) > 10)
    head = browser.find_element("css selector", "#pingpong details thead").text
    assert "reused" in head and "invalid" in head


@pytest.mark.parametrize("format_", ["svg", "png"])
def test_a_plot_can_be_saved(browser: webdriver.Chrome, real_page: Path, tmp_path: Path, format_: str) -> None:
    show(browser, real_page)
    browser.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)})
    browser.find_element("css selector", f"#pingpong [data-save={format_}]").click()
    wait(lambda: any(p.suffix == f".{format_}" and p.stat().st_size for p in tmp_path.iterdir()))
    (saved,) = tmp_path.iterdir()
    content = saved.read_bytes()
    assert content.startswith(b"\x89PNG" if format_ == "png" else b"<svg") and len(content) > 10_000
    if format_ == "svg":
        assert b"Half round trip" in content and b"openmpi" in content
    assert complaints(browser) == []


def test_the_selector_shows_another_pair(browser: webdriver.Chrome, two_places_page: Path) -> None:
    show(browser, two_places_page)
    top = "document.querySelector('#pingpong .plotly-place').data.find(t => t.name === 'reused' && t.meta).y[0]"
    assert script(browser, top) == pytest.approx(1.0)
    browser.find_element("css selector", "#place option:nth-child(2)").click()
    wait(lambda: script(browser, top) == pytest.approx(0.5))
    assert browser.find_element("css selector", ".banner").is_displayed()


@pytest.mark.parametrize("width", [320, 1400])
@pytest.mark.parametrize("which", ["real_page", "two_places_page", "comparison_page"])
def test_nothing_sticks_out_to_the_right(
    browser: webdriver.Chrome, which: str, width: int, request: pytest.FixtureRequest
) -> None:
    show(browser, request.getfixturevalue(which), width=width)
    browser.execute_script("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert script(browser, "document.documentElement.scrollWidth") <= width
    wide = script(browser, "Math.max(...[...document.querySelectorAll('.main-svg')].map(s => s.clientWidth))")
    assert wide <= width
