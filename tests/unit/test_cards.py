"""Does a card say whether a claim still holds on the reader's machine, are many machines collected into one table, and
is a folder all that a further paper takes?"""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from tuning import in_process

from nearfield.base.errors import ProfileError
from nearfield.reproduce import page
from nearfield.reproduce.cards import cards_of
from nearfield.reproduce.live.measure import needed_live_profiles
from nearfield.reproduce.outcome import Answer, JudgedClaim, JudgedPaper, JudgedStatement, LiveSummary, Reproduction
from nearfield.reproduce.papers import claims_file_by_paper, load_paper, select_claims
from nearfield.reproduce.score import score_papers

NEW_PAPER = """
schema_version = 1
name = "Smith2027"
title = "made up"
[here.window]
scenario = ["rows"]
[[claim]]
id = "Smith2027.1"
weight = 3
says = "reading in place is faster"
where = "abstract"
[[claim.statement]]
says = "at any size"
paper = "much faster"
not_simulated = "nobody asks it"
[claim.statement.here]
profile = "window"
judge = "more"
[claim.statement.here.curve]
metric = "exchange"
where = { way = "in-place", distance = "inside" }
versus = { way = "sendrecv" }
how = "gain"
"""


def test_a_folder_is_all_that_a_further_paper_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Are the claims of a new folder chosen by its name, and is one without a README, or of another name, refused?"""
    file = tmp_path / "Smith2027/claims.toml"
    file.parent.mkdir()
    file.write_text(NEW_PAPER)
    monkeypatch.setattr(
        "nearfield.reproduce.papers.claims_file_by_paper",
        lambda: {"Smith2027": file, "S1": claims_file_by_paper()["S1"]},
    )
    with pytest.raises(ProfileError, match="no README"):
        load_paper("Smith2027")
    (file.parent / "README.md").write_text("# made up")
    assert [claim.id for _, claims in select_claims(["Smith2027"]) for claim in claims] == ["Smith2027.1"]
    assert list(needed_live_profiles(select_claims(["Smith2027.1"]))) == ["window"]
    monkeypatch.setattr("nearfield.reproduce.papers.claims_file_by_paper", lambda: {"Other": file})
    with pytest.raises(ProfileError, match="is called Other"):
        load_paper("Other")


# ---- cards


def answered(answer: str, says: str = "it is so", **more: Any) -> JudgedStatement:
    here = Answer(answer=answer, ours="12 %", control=more.pop("control", ""))
    return JudgedStatement(says=says, paper="40 %", ours="", holds=None, is_number=False, here=here, **more)


def of_answers(name: str, weight: int, *statements: JudgedStatement) -> JudgedClaim:
    return JudgedClaim(id=name, says="", where="", weight=weight, verdict="not simulated", statements=list(statements))


def test_cards_say_whether_a_claim_still_holds() -> None:
    """Are negative results first; does a claim hold whole only if nothing of it is left open; and do a control that
    holds, and that something was measured at all, say nothing for it?"""
    control = answered("holds", "the loops alone", is_question=False, is_control=True)
    claims = [
        of_answers("S0.2", 2, answered("holds"), answered("holds")),
        of_answers("S0.3", 3, answered("holds"), answered("cannot tell")),
        of_answers("S0.4", 2, answered("holds"), answered("artefact", control="without messages: holds, 11 %")),
        of_answers("S0.5", 3, answered("does not"), control),
        of_answers("S0.6", 3, answered("cannot tell"), control, answered("holds", is_question=False)),
        of_answers("S0.7", 2, JudgedStatement(says="", paper="", ours="", holds=None, is_number=False,
                                     here=Answer(ours="needs a second node"))),
        of_answers("S0.1", 1, answered("holds")),
    ]  # fmt: skip
    cards = cards_of([JudgedPaper(name="S0", title="caches", claims=claims, chosen=[])])
    assert [(card.claim, card.verdict) for card in cards] == [
        ("S0.4", "artefact"), ("S0.5", "does not"), ("S0.3", "holds in part"), ("S0.2", "holds"),
        ("S0.6", "cannot tell"), ("S0.7", "not measured"),
    ]  # fmt: skip
    found = {card.claim: card for card in cards}
    assert found["S0.4"].here == "artefact: 12 %" and "without messages: holds, 11 %" in found["S0.4"].control
    assert found["S0.4"].line == "Of 2 statements 1 holds, 1 is an artefact."
    assert "the loops alone: holds (12 %)" in found["S0.5"].control and found["S0.5"].statement == "it is so"
    assert found["S0.5"].command.endswith("nearfield reproduce S0.5 --live-only")
    assert found["S0.7"].line == "Not measured here: needs a second node." and "--live" not in found["S0.7"].command


def artifact(folder: Path, name: str, load: float, *claims: JudgedClaim, measured: bool = True) -> Reproduction:
    papers = [JudgedPaper(name="S0", title="caches", claims=list(claims), chosen=[])]
    here = LiveSummary(machine=f"{name} CPU", cores=8, kernel="Linux", mpi="mpich-5", compiler="gcc 14", launches=5,
                    folder="here/mpich-5", load_1m=load, complete=True)  # fmt: skip
    found = Reproduction(
        nearfield="0", created="2026-01-02", command="nearfield reproduce", quick=False, complete=True, seconds=1,
        papers=papers, score=score_papers(papers), here=here if measured else None, cards=cards_of(papers),
    )  # fmt: skip
    (folder / f"{name}.json").write_text(found.model_dump_json())
    return found


def test_machines_are_collected_into_one_table(tmp_path: Path) -> None:
    """Do the files of two machines give a row each, with the claims that either measured, and is a file without a
    measurement, a damaged one, and an empty folder refused?"""
    assert in_process("reproduce", "--collect", tmp_path).code == 2
    artifact(tmp_path, "old", 0.1, of_answers("S0.2", 2, answered("holds")))
    artifact(
        tmp_path, "new", 2.5, of_answers("S0.2", 2, answered("does not")), of_answers("S0.9", 3, answered("artefact"))
    )
    done = in_process("reproduce", "--collect", tmp_path)
    assert done.code == 0 and re.search(r"new CPU +mpich-5 +2.5 +does not +artefact", done.out), done.out
    assert re.search(r"old CPU +mpich-5 +0.1 +holds", done.out)
    rows = json.loads(in_process("reproduce", "--collect", tmp_path, "--json").out)
    assert [(row["file"], row["verdicts"]) for row in rows] == [
        ("new.json", {"S0.9": "artefact", "S0.2": "does not"}), ("old.json", {"S0.2": "holds"}),
    ]  # fmt: skip
    assert rows[0]["here"]["compiler"] == "gcc 14"
    artifact(tmp_path, "simulated", 0.0, measured=False)
    assert "only simulated" in in_process("reproduce", "--collect", tmp_path).err
    (tmp_path / "simulated.json").write_text("{}")
    assert "keys are wrong" in in_process("reproduce", "--collect", tmp_path).err


def test_measured_and_simulated_results_are_never_mixed(tmp_path: Path) -> None:
    """Is a measured answer in no table or list of the papers' machines, and are these left out if nothing was
    simulated?"""
    claim = of_answers("S0.2", 2, answered("does not", "it is so here"))
    found = artifact(tmp_path, "one", 0.1, claim)
    html = page.render_page(found, tmp_path)
    assert "it is so here" in html and "does not: 12" in html and 'id="verdicts"' not in html
    both = found.papers[0].model_copy(update={"simulated": ["leo3"]})
    html = page.render_page(found.model_copy(update={"papers": [both]}), tmp_path)
    measured, _, simulated = html.partition('id="verdicts"')
    assert "does not" in measured and "12" in measured and 'class="verdict does-not"' not in simulated
