"""What `nearfield report` writes about the tests' profiles, and how tests read it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import typer
from typer.testing import CliRunner

from nearfield.cli.verbs.report import command
from nearfield.profile import load

DATA = Path(__file__).parents[1] / "data"
QUIET = load(DATA / "epyc-vm-quiet")
RULES = DATA / "rules" / "openmpi-5.0.11.toml"

app = typer.Typer()
app.command()(command)


def run(*arguments: str | Path) -> str:
    return CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False).output


def charts_of(page: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="charts">(.*?)</script>', page, re.DOTALL)
    assert found
    return {chart["id"]: chart for chart in json.loads(found.group(1))["charts"]}


def own_part(page: str) -> str:
    """The page without plotly.js, which mentions map servers that nobody asks."""
    start = page.index("/**\n* plotly.js") if "/**\n* plotly.js" in page else page.rindex("<script>\n", 0, -20_000)
    return page[:start]


def trace(chart: dict[str, Any], name: str, **choice: str) -> dict[str, Any]:
    variant = next(v for v in chart["variants"] if choice.items() <= v["choice"].items())
    return next(t for t in variant["data"] if t.get("name") == name and "marker" in t)
