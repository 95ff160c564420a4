"""Do traces of real programs answer what S4 says of applications, beside the verdicts and without touching them?"""

import json
from pathlib import Path

import pytest
from observed import trace_of_ring
from typer.testing import CliRunner

from nearfield.base.errors import UsageError
from nearfield.cli import app
from nearfield.measure.sim.cases import SimulationCase
from nearfield.reproduce.adverbs import degree_of
from nearfield.reproduce.page import render_page
from nearfield.reproduce.papers import select_claims
from nearfield.reproduce.session import ReproductionSettings, reproduce
from nearfield.reproduce.traced import parse_traces, simulate_traces


def nothing(cases: list[SimulationCase]):
    """Simulates no imitation."""
    return iter(())


@pytest.fixture(scope="module")
def ring(tmp_path_factory, programs: Path) -> Path:
    return trace_of_ring(tmp_path_factory.mktemp("traced"), programs, 2)


def test_a_trace_answers_without_changing_verdicts(ring, tmp_path):
    """Are the answers those of `simulate run`, what one trace cannot answer left open, and verdicts as they were?"""
    wanted, settings = select_claims(["S4.4"]), ReproductionSettings(tmp_path / "out")
    traces = simulate_traces(wanted, parse_traces([f"fft:4MiB={ring}"]), settings, lambda line: None)
    found = reproduce(wanted, settings, nothing, traced=traces)
    plain = reproduce(wanted, settings, nothing)
    ((claim,),) = [paper.claims for paper in found.papers]
    assert claim.verdict == plain.papers[0].claims[0].verdict == "not simulated"
    answers = {one.says: one.traced for one in claim.statements}
    improves, constant = (
        answers["large: payload-l3 improves"],
        answers["large: payload-l3's gain does not depend on the nodes"],
    )
    words = [
        "simulate",
        "run",
        str(ring),
        "--nodes",
        "2",
        "--policy",
        "header-l2,payload-l3,header-payload,adaptive",
        "--json",
    ]
    simulated = json.loads(CliRunner().invoke(app, [*words, "--memory-slowdown", "1"]).stdout)
    base, saved = simulated["time_ns"][0][0], simulated["time_ns"][2][0]
    gain = 1 - saved / base
    clearly = degree_of("clearly improves performance", "difference").min_difference
    assert improves.answer == ("holds" if gain > clearly else "does not")
    assert improves.ours.startswith(f"{100 * gain:.3g} %")
    assert constant.answer == "" and constant.ours == "one trace is no curve"
    assert answers["small: header-l2 on 8 nodes"].answer == ""
    page = render_page(found, settings.out_folder)
    assert "is of real programs (fft:4194304" in page and "<dt>traced</dt>" in page
    assert "traced" not in render_page(plain, settings.out_folder)


def test_mistakes_in_traces_are_reported(ring, tmp_path):
    """Are other applications, sizes and no traces refused, with what there is?"""
    wanted, settings = select_claims(["S4.4"]), ReproductionSettings(tmp_path / "out")
    for text in ("amg", "=x", "amg="):
        with pytest.raises(UsageError, match="no application and folder"):
            parse_traces([text])
    for text in (f"lammps={ring}", f"fft={ring}", f"fft:5MiB={ring}"):
        with pytest.raises(UsageError, match="no claim is about") as error:
            simulate_traces(wanted, parse_traces([text]), settings, lambda line: None)
        assert "fft:4194304" in error.value.remedy
