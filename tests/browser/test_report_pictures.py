"""Does a browser draw the plots of the report as SVG files?"""

from __future__ import annotations

import shutil
from pathlib import Path
from xml.etree import ElementTree

import pytest
from report_profiles import message, profile

from nearfield.report import pictures
from nearfield.report.page import charts_of, render_report

BROWSER = next(filter(None, map(shutil.which, pictures.BROWSERS)), None)


@pytest.mark.skipif(BROWSER is None, reason="no Chromium or Chrome")
def test_pictures_are_drawn(tmp_path: Path) -> None:
    """Is there a picture for each choice of each plot, which is SVG with the plot's title, machine and curves?"""
    made = profile([message(8 << i, 500 + i) for i in range(3)])
    drawn = pictures.draw_pictures(render_report(made))
    assert len(drawn) == sum(len(chart.variants) for chart in charts_of(made)) > 0
    for name, content in drawn.items():
        words = "".join(ElementTree.fromstring(content).itertext())
        assert name.endswith(".svg") and "Test CPU" in words
    assert any("Half round trip" in content and "reused" in content for content in drawn.values())
