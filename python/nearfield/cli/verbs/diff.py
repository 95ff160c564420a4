"""`nearfield diff`: compares two profiles: what is faster or slower, and how many times are reproducible."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from nearfield.base.errors import NOT_DECIDED_EXIT_CODE, UsageError
from nearfield.base.units import parse_share
from nearfield.cli.options import AsJson
from nearfield.profile.gate import MIN_STABLE_SHARE
from nearfield.ui.terminal import Terminal


def command(
    a: Annotated[Path, typer.Argument(help="The profile to compare with.")],
    b: Annotated[Path, typer.Argument(help="The profile to compare.")],
    threshold: Annotated[str, typer.Option(help="Smaller changes count as the same.")] = "5%",
    only_agreement: Annotated[
        bool,
        typer.Option("--agreement", help="Print only the share of stable times that agree, and of how many."),
    ] = False,
    fail_if_slower: Annotated[
        str | None,
        typer.Option(
            metavar="SHARE",
            help="For CI: exit with 1 if a scenario's stable times are slower by more (10%) in the geometric mean; "
            f"with {NOT_DECIDED_EXIT_CODE} if that cannot be decided.",
        ),
    ] = None,
    each: Annotated[
        bool, typer.Option("--any", help="With --fail-if-slower: look at each single time, too, not only at the mean.")
    ] = False,
    require_stable: Annotated[
        str,
        typer.Option(
            metavar="SHARE",
            help="With --fail-if-slower: the share of each scenario's times that must be stable in both profiles.",
        ),
    ] = f"{MIN_STABLE_SHARE:.0%}",
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="List the MPI's control variables, too.")] = False,
    as_json: AsJson = False,
) -> None:
    """Compare two profiles: ratios B/A with intervals. They may be of different machines or MPIs."""
    from nearfield.cli import diff_tables as tables
    from nearfield.profile import load
    from nearfield.profile.compare import compare_records, count_agreeing_times
    from nearfield.profile.differences import agreement_line
    from nearfield.profile.gate import GateLimits, judge_slowdown

    share = parse_share(threshold)
    limits = (
        None if fail_if_slower is None else GateLimits(parse_limit(fail_if_slower), parse_share(require_stable), each)
    )
    if each and limits is None:
        raise UsageError(
            "--any is for --fail-if-slower", "State by how much times may be slower: --fail-if-slower 10%."
        )
    first, second = load(a), load(b)
    comparison = compare_records(first.records, second.records, (first.run, second.run), share)
    agreed = count_agreeing_times(comparison.changes)
    gate = judge_slowdown(comparison, (first.run, second.run), limits) if limits else None
    if as_json:
        whole = {} if only_agreement else tables.as_dict(first, second, comparison, share)
        judged = {"gate": tables.gate_as_dict(gate)} if gate else {}
        print(json.dumps({**whole, "agreement": agreed, **judged}, indent=1))
    elif only_agreement:
        print(agreement_line(agreed))
    else:
        Terminal().print(tables.comparison_view(first, second, comparison, verbose))
    if gate:
        for line in tables.gate_lines(gate):
            print(line, file=sys.stderr)
        raise typer.Exit(tables.EXIT_CODES[gate.verdict])


def parse_limit(text: str) -> float:
    """Parses the fraction by which times may be slower. Raises UsageError for a whole number without a unit, because 1
    might mean 1 % or 100 %, and a gate at 100 % detects nothing."""
    if text.strip().isdigit() and int(text) > 0:
        raise UsageError(f"--fail-if-slower {text} has no unit", f"Write --fail-if-slower {text}%.")
    return parse_share(text)
