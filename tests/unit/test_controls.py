"""Does a control tell an effect from an artefact, and does it fail closed?"""

import random
import shutil

import pytest
import report_profiles as made

from nearfield.reproduce.live import measure
from nearfield.reproduce.live.answers import LiveData, answer_statement, apply_control
from nearfield.reproduce.live.loops import (
    LOOP_QUESTIONS,
    answer_by_loops,
    judge_any_gain,
    judge_no_gain,
    measure_loops,
)
from nearfield.reproduce.live.sizes import MachineSizes
from nearfield.reproduce.outcome import Answer
from nearfield.reproduce.papers import load_paper, select_claims
from nearfield.reproduce.schema import ControlMeasurement

FACTS = made.profile([made.row("protocol", "single_copies", 0, "count", size_bytes=8, **made.HERE)],
                     [made.switch("eager-limit", 4096)])  # fmt: skip


@pytest.mark.parametrize(("effect", "found", "controlled", "answer"), [
    ("vanishes", "holds", "does not", "holds"),
    ("vanishes", "holds", "holds", "artefact"),
    ("vanishes", "holds", "cannot tell", "cannot tell"),
    ("stays", "holds", "holds", "holds"),
    ("stays", "holds", "does not", "artefact"),
    ("stays", "holds", "", "cannot tell"),
    ("vanishes", "does not", "holds", "does not"),
    ("stays", "cannot tell", "holds", "cannot tell"),
])  # fmt: skip
def test_an_effect_of_the_control_is_an_artefact(
    effect: str, found: str, controlled: str, answer: str
) -> None:  # fmt: skip
    """Is an effect no answer if its control shows it, too, and none if the control cannot tell; and is the control's
    number beside it?"""
    control = ControlMeasurement(effect=effect, says="without messages")
    judged = apply_control(Answer(answer=found, ours="9 %"), control, Answer(answer=controlled, ours="8 %"))
    assert judged.answer == answer and judged.ours == "9 %"
    assert judged.control == f"without messages: {controlled or 'cannot tell'}, 8 %"


def test_controls_decide_between_effect_and_artefact() -> None:
    """By records in which OPT1 gains 30 % with messages: is that an artefact if the loops alone gain it, too, and an
    effect if they do not? Are the control's profiles measured?"""
    paper = load_paper("S0")
    (claim,) = (one for one in paper.claim if one.id == "S0.9")
    statement = claim.statement[2]
    assert statement.here and statement.here.control and statement.here.control.effect == "vanishes"

    def answer(alone_gain: float) -> Answer:
        chance = random.Random(5)
        profiles = []
        for _ in range(5):
            rows = []
            for size in (1024, 4096, 16384):
                for name, gain in (("", 0.3), ("-alone", alone_gain)):
                    for variant, factor in (("listing-1", 1.0), ("opt1", 1 - gain), ("opt2", 1.0)):
                        time = 1000.0 * factor * (1 + chance.gauss(0, 0.0005))
                        rows.append(made.row("stencil", "iteration", time, "ns", size_bytes=size,
                                             variant=variant + name, **made.HERE))  # fmt: skip
            profiles.append(made.profile(rows, [made.switch("eager-limit", 4096)]))
        return answer_statement(paper, statement, LiveData(MachineSizes(FACTS), {"stencil": profiles}))

    assert answer(0.0).answer == "holds", answer(0.0)
    assert answer(0.3).answer == "artefact" and "the same loops without messages: holds" in answer(0.3).control
    assert {"cut", "cut-cached"} <= set(measure.needed_live_profiles(select_claims(["S0.10"])))


@pytest.mark.slow
def test_loops_without_messages_are_compiled_and_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do the programs run with every set of options, does an answer need all runs, and is none given on a busy
    machine?"""
    if not shutil.which("cc"):
        pytest.skip("no C compiler")
    assert [len(run) for run in measure_loops(["cc", "-O2"])] == [4, 4, 4]
    assert measure_loops(["cc", "--no-such-option"]) == []
    always, never, once = [[[0.2, 0.0]] * 3], [[[0.01, -0.02]] * 3], [[[0.2, 0.0], [0.01, 0.0], [0.2, 0.0]]]
    assert [judge_any_gain(some) for some in (always, never, once)] == ["holds", "does not", "cannot tell"]
    assert [judge_no_gain(some) for some in (always, never, once)] == ["does not", "holds", "cannot tell"]
    monkeypatch.setattr("os.getloadavg", lambda: (1000.0, 0, 0))
    for question in LOOP_QUESTIONS:
        found = answer_by_loops(question)
        assert found.answer == "cannot tell" and "busy" in found.ours and "-O2" in found.ours
