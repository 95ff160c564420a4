"""Draws a judged curve and the paper's number as a small SVG chart in the page's colours, light or dark. A page has
hundreds of charts, so they use no script."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nearfield.reproduce.adverbs import SAME_TOLERANCE
from nearfield.reproduce.judges import NUMBER_TOLERANCE
from nearfield.reproduce.outcome import JudgedStatement, ShownEvidence
from nearfield.reproduce.writers import NUMBER_FORMATTERS, parameter_formatter
from nearfield.ui.html import tag, text

CHART_WIDTH, CHART_HEIGHT = 300, 112
MARGIN_LEFT, MARGIN_RIGHT, MARGIN_TOP, MARGIN_BOTTOM = 6, 6, 16, 18  # margins for text
CURVE_CSS_CLASSES = ("ours", "than")  # CSS classes of the judged curve and of the curve with which it is compared
MIN_LOG_RATIO_X, MIN_LOG_RATIO_Y = 4.0, 20.0  # an axis is logarithmic from this ratio of maximum to minimum on
# Kind of number -> the value that means no difference. Numbers within SAME_TOLERANCE of it count as equal.
NEUTRAL_VALUE_BY_KIND = {"gain": 0.0, "factor": 1.0}


@dataclass(frozen=True)
class Axis:
    """Maps values to pixels, linearly or logarithmically."""

    low: float
    high: float
    begin_px: float
    end_px: float
    is_log: bool

    def __call__(self, value: float) -> float:
        low, high, at = (math.log(v) if self.is_log else v for v in (self.low, self.high, value))
        share = (at - low) / (high - low) if high > low else 0.5
        return round(self.begin_px + share * (self.end_px - self.begin_px), 1)


def make_axis(
    values: Sequence[float], begin_px: float, end_px: float, min_log_ratio: float, extra_values: Sequence[float] = ()
) -> Axis:
    """Returns an axis that covers `values` and `extra_values`. The axis is logarithmic if all `values` are positive and
    their maximum is at least `min_log_ratio` times their minimum; in that case, `extra_values` up to 0 are ignored."""
    is_log = min(values) > 0 and max(values) / min(values) >= min_log_ratio
    covered_values = [*values, *(v for v in extra_values if v > 0 or not is_log)]
    return Axis(min(covered_values), max(covered_values), begin_px, end_px, is_log)


def draw_chart(judged: JudgedStatement) -> str:
    """Returns the HTML of the chart, with a legend, that shows the evidence on a paper's statement; '' if the evidence
    has no curve."""
    if judged.shown is None or not judged.shown.lines[0].points:
        return ""
    parts = _ChartRenderer(judged, judged.shown)
    drawing = tag(
        "svg",
        parts.all_html(),
        viewBox=f"0 0 {CHART_WIDTH} {CHART_HEIGHT}",
        role="img",
        aria_label=parts.description_text(),
    )
    return tag("figure", drawing + tag("figcaption", _legend_html(judged)), class_="sketch")


def _legend_html(judged: JudgedStatement) -> str:
    assert judged.shown
    keys = [
        tag("span", text(line.name), class_=css_class)
        for css_class, line in zip(CURVE_CSS_CLASSES, judged.shown.lines, strict=False)
    ]
    if judged.number:
        keys.append(tag("span", "the paper", class_="paper"))
    return " ".join(keys)


class _ChartRenderer:
    """Renders the parts of one chart as SVG elements."""

    def __init__(self, judged: JudgedStatement, shown: ShownEvidence) -> None:
        self.judged, self.shown = judged, shown
        self.format_number: Callable[[float], str] = NUMBER_FORMATTERS[shown.kind]
        self.format_x = parameter_formatter(shown.by)
        xs = [x for line in shown.lines for x, _ in line.points]
        ys = [y for line in shown.lines for _, y in line.points]
        self.low, self.high = min(ys), max(ys)
        # Parameter values that are not in ascending order are categories, which are drawn at equal distances in that
        # order.
        first = [x for x, _ in shown.lines[0].points]
        self.categories = dict.fromkeys(first) if first != sorted(first) else None
        columns = [float(i) for i in range(len(first))]
        self.x_axis = make_axis(
            columns if self.categories else xs, MARGIN_LEFT + 4, CHART_WIDTH - MARGIN_RIGHT - 4, MIN_LOG_RATIO_X
        )
        neutral_value = NEUTRAL_VALUE_BY_KIND.get(shown.kind)
        extra_values = [
            *(judged.number or ()),
            *(() if neutral_value is None else (neutral_value - SAME_TOLERANCE, neutral_value + SAME_TOLERANCE)),
        ]
        # Gains are compared by their difference, so their y axis is linear.
        min_log_ratio = math.inf if shown.kind == "gain" else MIN_LOG_RATIO_Y
        self.y_axis = make_axis(ys, CHART_HEIGHT - MARGIN_BOTTOM - 4, MARGIN_TOP + 4, min_log_ratio, extra_values)

    def all_html(self) -> str:
        return (
            self._neutral_line_html()
            + self._paper_number_html()
            + "".join(map(self._line_html, range(len(self.shown.lines))))
            + self._labels_html()
        )

    def description_text(self) -> str:
        xs = [x for x, _ in self.shown.lines[0].points]
        range_text = f"{self.format_number(self.low)} to {self.format_number(self.high)}"
        return f"{range_text} from {self.format_x(xs[0])} to {self.format_x(xs[-1])}"

    def _x_pixel(self, x: float) -> float:
        return self.x_axis(float(list(self.categories).index(x))) if self.categories else self.x_axis(x)

    def _neutral_line_html(self) -> str:
        """Returns a horizontal line at the value that means no difference, for example at a ratio of 1; '' if there is
        none."""
        base = NEUTRAL_VALUE_BY_KIND.get(self.shown.kind)
        if base is None or (self.y_axis.is_log and base <= 0):
            return ""
        return self._horizontal_line(base, "base")

    def _paper_number_html(self) -> str:
        """Returns horizontal lines at the ends of the paper's number, and a band that shows its tolerance at the
        paper's position."""
        if not self.judged.number or (self.y_axis.is_log and min(self.judged.number) <= 0):
            return ""
        low, high = self.judged.number
        begin, end = self._tolerance_band_span()
        top, bottom = (
            min(max(self.y_axis(v), MARGIN_TOP), CHART_HEIGHT - MARGIN_BOTTOM)
            for v in (high + NUMBER_TOLERANCE * abs(high), low - NUMBER_TOLERANCE * abs(low))
        )
        band = tag(
            "rect", x=begin, y=top, width=round(end - begin, 1), height=round(max(bottom - top, 1), 1), class_="near"
        )
        return band + "".join(self._horizontal_line(number, "paper") for number in dict.fromkeys(self.judged.number))

    def _tolerance_band_span(self) -> tuple[float, float]:
        if not self.judged.at or self.categories:
            return MARGIN_LEFT, CHART_WIDTH - MARGIN_RIGHT
        low, high = (min(max(v, self.x_axis.low), self.x_axis.high) for v in self.judged.at)
        return max(self.x_axis(low) - 4, MARGIN_LEFT), min(self.x_axis(high) + 4, CHART_WIDTH - MARGIN_RIGHT)

    def _horizontal_line(self, value: float, css_class: str) -> str:
        y = self.y_axis(value)
        return tag("line", x1=MARGIN_LEFT, x2=CHART_WIDTH - MARGIN_RIGHT, y1=y, y2=y, class_=css_class)

    def _line_html(self, index: int) -> str:
        line = self.shown.lines[index]
        shown_points = [(x, y) for x, y in line.points if not self.categories or x in self.categories]
        path = " ".join(f"{self._x_pixel(x)},{self.y_axis(y)}" for x, y in shown_points)
        dots = "".join(
            tag("circle", tag("title", text(f"{line.name}, {self.format_x(x)}: {self.format_number(y)}")),
                cx=self._x_pixel(x), cy=self.y_axis(y), r=2.6)
            for x, y in shown_points
        )  # fmt: skip
        return tag("g", tag("polyline", points=path) + dots, class_=CURVE_CSS_CLASSES[index])

    def _labels_html(self) -> str:
        xs = (
            list(self.categories)
            if self.categories
            else sorted({x for line in self.shown.lines for x, _ in line.points})
        )
        ends = tag("text", text(self.format_x(xs[0])), x=MARGIN_LEFT, y=CHART_HEIGHT - 4)
        if len(xs) > 1:
            ends += tag(
                "text", text(self.format_x(xs[-1])), x=CHART_WIDTH - MARGIN_RIGHT, y=CHART_HEIGHT - 4, text_anchor="end"
            )
        span = (
            self.format_number(self.low)
            if self.low == self.high
            else f"{self.format_number(self.low)} to {self.format_number(self.high)}"
        )
        return ends + tag("text", text(span), x=MARGIN_LEFT, y=MARGIN_TOP - 5)
