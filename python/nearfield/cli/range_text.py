"""Formats results with error bars or confidence intervals for tables."""

from __future__ import annotations

from nearfield.base.estimates import Estimate
from nearfield.base.units import format_ns
from nearfield.machine.uncertainty import ErrorBar


def format_mean(time_ns: Estimate) -> str:
    """Returns a mean time as text such as '355 us ± 0.85 %', half of its interval as a share of it."""
    half = (time_ns.high - time_ns.low) / 2
    return f"{format_ns(time_ns.value)} ± {100 * half / time_ns.value if time_ns.value else 0:#.2g} %"


def format_time_range(time_ns: ErrorBar) -> str:
    """Returns text such as '355 us (352 us to 358 us)'."""
    return f"{format_ns(time_ns.value)} ({format_ns(time_ns.low)} to {format_ns(time_ns.high)})"


def format_ratio_range(ratio: ErrorBar | Estimate) -> str:
    """Returns text such as '1.10 (1.07 to 1.12)', dimmed if the interval contains 1."""
    text = f"{ratio.value:#.3g} ({ratio.low:#.3g} to {ratio.high:#.3g})"
    return f"[dim]{text}[/dim]" if ratio.low <= 1 <= ratio.high else text


def format_saving(share: ErrorBar | Estimate) -> str:
    """Returns a saved fraction as text such as '+1.2 % (+0.8 to +1.6)': green if the interval is above 0, red if it is
    below 0, and dimmed if it contains 0."""
    text = f"{100 * share.value:+.1f} % ({100 * share.low:+.1f} to {100 * share.high:+.1f})"
    colour = "green" if share.low > 0 else "red" if share.high < 0 else "dim"
    return f"[{colour}]{text}[/{colour}]"
