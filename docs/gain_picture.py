"""The picture of the README: what tuned messages gain, by size, drawn from the table in docs/performance.md.

python docs/gain_picture.py    writes docs/images/gain.svg
"""

from __future__ import annotations

import math
import re
from pathlib import Path

DOCS = Path(__file__).parent
PICTURE = DOCS / "images/gain.svg"
WIDTH, HEIGHT = 600, 350
LEFT, RIGHT, TOP, BOTTOM = 44, 150, 58, 56
TOP_GAIN = 6
UNITS = {"KiB": 10, "MiB": 20}
# Line styles differ as well as colours, so that the curves can be distinguished in print and by everybody.
STYLES = (("#0072b2", "#56b4e9", ""), ("#b84a00", "#f0a050", "7 4"), ("#007a5a", "#4cc9a0", "2 4"))


def table() -> tuple[list[str], dict[str, list[float | None]]]:
    """Returns the sizes of the first table of gains, and for each MPI the gains at these sizes."""
    page = (DOCS / "performance.md").read_text(encoding="utf-8").split("\n## ")[1]  # of messages
    rows = [
        line.strip("| ").split(" | ")
        for line in re.findall(r"^\| (?:one buffer|Open MPI|MPICH) .*$", page, re.MULTILINE)
    ]
    names, sizes = [row[0] for row in rows[1:]], rows[0][2:]
    gains = [[None if cell == "-" else float(cell) for cell in row[2:]] for row in rows[1:]]
    return sizes, dict(zip(names, gains, strict=True))


def picture() -> str:
    """Returns the picture as SVG."""
    sizes, curves = table()
    parts = [_HEAD]
    for gain in range(TOP_GAIN + 1):
        y = _y(gain)
        kind = "base" if gain == 1 else "grid"
        parts.append(f'<line class="{kind}" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y}" y2="{y}"/>')
        parts.append(f'<text x="{LEFT - 10}" y="{y + 4}" text-anchor="end">{gain}x</text>')
    for size in sizes:
        parts.append(f'<text x="{_x(size)}" y="{HEIGHT - BOTTOM + 22}" text-anchor="middle">{size}</text>')
    parts.append(f'<text x="{WIDTH - RIGHT + 10}" y="{_y(1) + 4}">the MPI\'s defaults</text>')
    parts.append(f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 12}" text-anchor="middle">message size</text>')
    ends = _apart([next(gain for gain in reversed(gains) if gain) for gains in curves.values()])
    for number, ((name, gains), end) in enumerate(zip(curves.items(), ends, strict=True)):
        points = [(_x(size), _y(gain)) for size, gain in zip(sizes, gains, strict=True) if gain]
        line = " ".join(f"{x},{y}" for x, y in points)
        parts.append(f'<polyline class="c{number}" points="{line}"/>')
        parts += [f'<circle class="f{number}" cx="{x}" cy="{y}" r="4"/>' for x, y in points]
        label = name.partition(",")[0]
        parts.append(f'<text class="f{number} name" x="{WIDTH - RIGHT + 10}" y="{end}">{label}</text>')
    return "\n".join([*parts, "</svg>\n"])


def _x(size: str) -> float:
    number, unit = size.split()
    doubled = math.log2(float(number)) + UNITS[unit]
    return round(LEFT + 16 + (doubled - 12) / 12 * (WIDTH - LEFT - RIGHT - 32), 1)


def _y(gain: float) -> float:
    return round(HEIGHT - BOTTOM - gain / TOP_GAIN * (HEIGHT - TOP - BOTTOM), 1)


def _apart(gains: list[float]) -> list[float]:
    """Returns heights for labels near these gains that do not overlap, the highest gain on top."""
    heights: dict[int, float] = {}
    for number in sorted(range(len(gains)), key=lambda one: gains[one], reverse=True):
        lowest = max(heights.values(), default=0.0)
        heights[number] = max(_y(gains[number]) - 12, lowest + 19)
    return [heights[number] for number in range(len(gains))]


def _styles() -> str:
    light: list[str] = []
    dark: list[str] = []
    for number, (colour, bright, dashes) in enumerate(STYLES):
        for rules, shade in ((light, colour), (dark, bright)):
            rules.append(
                f".c{number} {{ fill: none; stroke: {shade}; stroke-width: 2.5; stroke-dasharray: {dashes or 'none'} }}"
            )
            rules.append(f".f{number} {{ fill: {shade} }}")
    return "\n".join([*light, "@media (prefers-color-scheme: dark) {", _DARK, *dark, "}"])


_DARK = """rect { fill: #16191d }
text { fill: #c6ccd2 }
text.title { fill: #f2f4f6 }
.grid { stroke: #2c3238 }
.base { stroke: #98a1a9 }"""
_SIZE = f'width="{WIDTH}" height="{HEIGHT}"'
_HEAD = f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" {_SIZE} role="img">
<title>Speed of MPI messages inside a node under nearfield run, relative to the same MPI with its defaults</title>
<style>
rect {{ fill: #ffffff }}
text {{ font: 14px system-ui, sans-serif; fill: #45505a }}
text.title {{ font-size: 16px; font-weight: 600; fill: #14181c }}
text.name {{ font-weight: 600 }}
.grid {{ stroke: #e3e7ea }}
.base {{ stroke: #6b7680; stroke-width: 1.5 }}
{_styles()}
</style>
<rect {_SIZE} rx="8"/>
<text class="title" x="{LEFT - 32}" y="30">Ping-pong under nearfield run: times as fast as with defaults</text>"""

if __name__ == "__main__":
    PICTURE.write_text(picture(), encoding="utf-8")
    print(PICTURE)
