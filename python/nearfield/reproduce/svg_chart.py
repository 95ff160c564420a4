"""Draws a judged curve and the paper's number as a small SVG chart in the page's colours, light or dark. A page has
hundreds of charts, so they use no script."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nearfield.reproduce.adverbs import SAME_TOLERANCE
from nearfield.reproduce.judges import NUMBER_TOLERANCE
from nearfield.reproduce.outcome import JudgedStatement, ShownEvidence
from nearfield.reproduce.writers import WRITERS, parameter_writer
from nearfield.ui.html import tag, text

WIDTH, HEIGHT = 300, 112
LEFT, RIGHT, TOP, BOTTOM = 6, 6, 16, 18  # margins for text
LINE_CLASSES = ("ours", "than")  # classes in style.css for the judged curve and the other one
LOG_RATIO_X, LOG_RATIO_Y = 4.0, 20.0  # ratio of maximum to minimum from which an axis is logarithmic
# Values that mean no difference; equal values lie within SAME_TOLERANCE of them.
NEUTRAL_VALUES = {"gain": 0.0, "factor": 1.0}


@dataclass(frozen=True)
class Axis:
    """Maps values to pixels, linearly or logarithmically."""

    low: float
    high: float
    begin: float
    end: float
    is_log: bool

    def __call__(self, value: float) -> float:
        low, high, at = (math.log(v) if self.is_log else v for v in (self.low, self.high, value))
        share = (at - low) / (high - low) if high > low else 0.5
        return round(self.begin + share * (self.end - self.begin), 1)


def make_axis(values: Sequence[float], begin: float, end: float, wide: float, also: Sequence[float] = ()) -> Axis:
    """Returns an axis that covers `values` and `also`. The axis is logarithmic if the values are positive and span at
    least the ratio `wide`; then values of `also` up to 0 are omitted."""
    is_log = min(values) > 0 and max(values) / min(values) >= wide
    known = [*values, *(v for v in also if v > 0 or not is_log)]
    return Axis(min(known), max(known), begin, end, is_log)


def draw_chart(judged: JudgedStatement) -> str:
    """Returns the chart with a legend as HTML; '' if there is no curve."""
    if judged.shown is None or not judged.shown.lines[0].points:
        return ""
    parts = _ChartParts(judged, judged.shown)
    drawing = tag("svg", parts.all_html(), viewBox=f"0 0 {WIDTH} {HEIGHT}", role="img", aria_label=parts.description())
    return tag("figure", drawing + tag("figcaption", _legend_html(judged)), class_="sketch")


def _legend_html(judged: JudgedStatement) -> str:
    assert judged.shown
    keys = [
        tag("span", text(line.name), class_=look) for look, line in zip(LINE_CLASSES, judged.shown.lines, strict=False)
    ]
    if judged.number:
        keys.append(tag("span", "the paper", class_="paper"))
    return " ".join(keys)


class _ChartParts:
    """The parts of one chart."""

    def __init__(self, judged: JudgedStatement, shown: ShownEvidence) -> None:
        self.judged, self.shown = judged, shown
        self.write: Callable[[float], str] = WRITERS[shown.kind]
        self.write_x = parameter_writer(shown.by)
        xs = [x for line in shown.lines for x, _ in line.points]
        ys = [y for line in shown.lines for _, y in line.points]
        self.low, self.high = min(ys), max(ys)
        # Values that are not sorted are categories, drawn at equal distances in their own order.
        first = [x for x, _ in shown.lines[0].points]
        self.places = dict.fromkeys(first) if first != sorted(first) else None
        columns = [float(i) for i in range(len(first))]
        self.x = make_axis(columns if self.places else xs, LEFT + 4, WIDTH - RIGHT - 4, LOG_RATIO_X)
        base = NEUTRAL_VALUES.get(shown.kind)
        also = [*(judged.number or ()), *(() if base is None else (base - SAME_TOLERANCE, base + SAME_TOLERANCE))]
        # Gains are compared by their difference, so their axis is linear.
        wide = math.inf if shown.kind == "gain" else LOG_RATIO_Y
        self.y = make_axis(ys, HEIGHT - BOTTOM - 4, TOP + 4, wide, also)

    def all_html(self) -> str:
        return (
            self._neutral_line_html()
            + self._paper_number_html()
            + "".join(map(self._line_html, range(len(self.shown.lines))))
            + self._labels_html()
        )

    def description(self) -> str:
        xs = [x for x, _ in self.shown.lines[0].points]
        return f"{self.write(self.low)} to {self.write(self.high)} from {self.write_x(xs[0])} to {self.write_x(xs[-1])}"

    def _x_pixel(self, x: float) -> float:
        return self.x(float(list(self.places).index(x))) if self.places else self.x(x)

    def _neutral_line_html(self) -> str:
        """Returns a horizontal line at the value that means no difference, such as a ratio of 1."""
        base = NEUTRAL_VALUES.get(self.shown.kind)
        if base is None or (self.y.is_log and base <= 0):
            return ""
        return self._horizontal_line(base, "base")

    def _paper_number_html(self) -> str:
        """Returns the paper's number as a horizontal line, with a band for its tolerance at the paper's position."""
        if not self.judged.number or (self.y.is_log and min(self.judged.number) <= 0):
            return ""
        low, high = self.judged.number
        begin, end = self._span()
        top, bottom = (
            min(max(self.y(v), TOP), HEIGHT - BOTTOM)
            for v in (high + NUMBER_TOLERANCE * abs(high), low - NUMBER_TOLERANCE * abs(low))
        )
        band = tag(
            "rect", x=begin, y=top, width=round(end - begin, 1), height=round(max(bottom - top, 1), 1), class_="near"
        )
        return band + "".join(self._horizontal_line(number, "paper") for number in dict.fromkeys(self.judged.number))

    def _span(self) -> tuple[float, float]:
        if not self.judged.at or self.places:
            return LEFT, WIDTH - RIGHT
        low, high = (min(max(v, self.x.low), self.x.high) for v in self.judged.at)
        return max(self.x(low) - 4, LEFT), min(self.x(high) + 4, WIDTH - RIGHT)

    def _horizontal_line(self, value: float, look: str) -> str:
        y = self.y(value)
        return tag("line", x1=LEFT, x2=WIDTH - RIGHT, y1=y, y2=y, class_=look)

    def _line_html(self, index: int) -> str:
        line = self.shown.lines[index]
        known = [(x, y) for x, y in line.points if not self.places or x in self.places]
        path = " ".join(f"{self._x_pixel(x)},{self.y(y)}" for x, y in known)
        dots = "".join(
            tag("circle", tag("title", text(f"{line.name}, {self.write_x(x)}: {self.write(y)}")), cx=self._x_pixel(x),
                cy=self.y(y), r=2.6)
            for x, y in known
        )  # fmt: skip
        return tag("g", tag("polyline", points=path) + dots, class_=LINE_CLASSES[index])

    def _labels_html(self) -> str:
        xs = list(self.places) if self.places else sorted({x for line in self.shown.lines for x, _ in line.points})
        ends = tag("text", text(self.write_x(xs[0])), x=LEFT, y=HEIGHT - 4)
        if len(xs) > 1:
            ends += tag("text", text(self.write_x(xs[-1])), x=WIDTH - RIGHT, y=HEIGHT - 4, text_anchor="end")
        span = self.write(self.low) if self.low == self.high else f"{self.write(self.low)} to {self.write(self.high)}"
        return ends + tag("text", text(span), x=LEFT, y=TOP - 5)
