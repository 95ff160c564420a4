"""Plots the baseline and the tuned MPI by message size: the bandwidth of both, and the gain, from alternating
measurements."""

from __future__ import annotations

from nearfield.profile.curves import Curve, Point
from nearfield.report.plots.axes import linear_axis, plot_by_size, time_or_rate
from nearfield.report.plots.chart import Chart, Figure, Variant
from nearfield.report.plots.series import Style, curve_style, line_traces
from nearfield.rules.schema import PointTable, Rules, RuleTable

TITLE = "Stock against tuned"
SHORT = "Tuned"
_PATTERNS = {"pingpong": "ping-pong", "stream": "stream, one way", "exchange": "exchange, both ways"}
_BASELINE, _TUNED = Style("@s4", "dash", "square"), Style("@s1")


def charts(rules: Rules) -> list[Chart]:
    """Returns the charts of bandwidth and gain of the rules, by size and pattern."""
    found = [rule for rule in rules.rule if rule.point]
    if not found:
        return []
    bandwidth = [variant for rule in found for variant in _bandwidths(rule)]
    gains = [Variant(_choice(rule), _gains(rule)) for rule in found]
    caption = (
        "Message size over time per message, sender's data just written. Stock and tuned jobs were on the same cores "
        "at once and measured in turn."
    )
    gain_caption = "Stock's time over the tuned one, pair by pair: above 1 is faster. Median and 95 % interval."
    return [
        Chart("tuned-bandwidth", "Bandwidth", caption, bandwidth),
        Chart("tuned-gain", "Gain", gain_caption, gains),
    ]


def _choice(rule: RuleTable) -> dict[str, str]:
    return {"distance": rule.distance}


def _bandwidths(rule: RuleTable) -> list[Variant]:
    variants = []
    for pattern, name in _PATTERNS.items():
        points = [p for p in rule.point if p.pattern == pattern]
        baseline: Curve = {p.size_bytes: _rate(p, p.baseline_ns) for p in points}
        tuned: Curve = {p.size_bytes: _rate(p, p.tuned_ns) for p in points}
        traces = line_traces("baseline", baseline, _BASELINE) + line_traces("tuned", tuned, _TUNED)
        figure = plot_by_size(traces, time_or_rate("bandwidth", traces), "message size")
        variants.append(Variant({**_choice(rule), "pattern": name}, figure))
    return variants


def _gains(rule: RuleTable) -> Figure:
    traces = []
    for i, (pattern, name) in enumerate(_PATTERNS.items()):
        points: Curve = {
            p.size_bytes: Point(p.gain.value, p.gain.low, p.gain.high, p.gain.n, True, unit="factor")
            for p in rule.point
            if p.pattern == pattern
        }
        traces += line_traces(name, points, curve_style(i))
    return plot_by_size(traces, linear_axis(traces, "times as fast as the baseline"), "message size")


def _rate(point: PointTable, time_ns: float) -> Point:
    rate = point.size_bytes / time_ns
    return Point(rate, rate, rate, point.gain.n, True, unit="GB/s")
