"""Plots the MPI with default parameters (baseline) and with tuned parameters by message size: the bandwidth of both,
and the gain, from measurements in alternation."""

from __future__ import annotations

from nearfield.profile.curves import Curve, Point
from nearfield.report.plots.axes import make_linear_axis, make_time_or_rate_axis, plot_by_size
from nearfield.report.plots.chart import Chart, ChartVariant, Figure
from nearfield.report.plots.series import CurveStyle, curve_style, line_traces
from nearfield.rules.schema import PointTable, Rules, RuleTable

TITLE = "Stock against tuned"
NAVIGATION_TITLE = "Tuned"
_PATTERN_NAMES = {"pingpong": "ping-pong", "stream": "stream, one way", "exchange": "exchange, both ways"}
_BASELINE_STYLE, _TUNED_STYLE = CurveStyle("@s4", "dash", "square"), CurveStyle("@s1")


def charts(rules: Rules) -> list[Chart]:
    """Returns the charts of bandwidth and gain of the rules, by size and pattern."""
    measured_rules = [rule for rule in rules.rule if rule.point]
    if not measured_rules:
        return []
    bandwidth = [variant for rule in measured_rules for variant in _bandwidth_variants(rule)]
    gains = [ChartVariant(_distance_option(rule), _gain_figure(rule)) for rule in measured_rules]
    caption = (
        "Message size over time per message, sender's data just written. Stock and tuned jobs were on the same cores "
        "at once and measured in turn."
    )
    gain_caption = "Stock's time over the tuned one, pair by pair: above 1 is faster. Median and 95 % interval."
    return [
        Chart("tuned-bandwidth", "Bandwidth", caption, bandwidth),
        Chart("tuned-gain", "Gain", gain_caption, gains),
    ]


def _distance_option(rule: RuleTable) -> dict[str, str]:
    return {"distance": rule.distance}


def _bandwidth_variants(rule: RuleTable) -> list[ChartVariant]:
    variants = []
    for pattern, name in _PATTERN_NAMES.items():
        points = [p for p in rule.point if p.pattern == pattern]
        baseline: Curve = {p.size_bytes: _bandwidth_point(p, p.baseline_ns) for p in points}
        tuned: Curve = {p.size_bytes: _bandwidth_point(p, p.tuned_ns) for p in points}
        traces = line_traces("baseline", baseline, _BASELINE_STYLE) + line_traces("tuned", tuned, _TUNED_STYLE)
        figure = plot_by_size(traces, make_time_or_rate_axis("bandwidth", traces), "message size")
        variants.append(ChartVariant({**_distance_option(rule), "pattern": name}, figure))
    return variants


def _gain_figure(rule: RuleTable) -> Figure:
    traces = []
    for i, (pattern, name) in enumerate(_PATTERN_NAMES.items()):
        points: Curve = {
            p.size_bytes: Point(p.gain.value, p.gain.low, p.gain.high, p.gain.n, True, unit="factor")
            for p in rule.point
            if p.pattern == pattern
        }
        traces += line_traces(name, points, curve_style(i))
    return plot_by_size(traces, make_linear_axis(traces, "times as fast as the baseline"), "message size")


def _bandwidth_point(point: PointTable, time_ns: float) -> Point:
    rate = point.size_bytes / time_ns
    return Point(rate, rate, rate, point.gain.n, True, unit="GB/s")
