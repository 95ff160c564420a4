"""Does every judge of the papers' claims accept the curves that it should, and refuse those that it must?"""

import pytest

from nearfield.reproduce.adverbs import DEFAULT_DEGREE, degree_of
from nearfield.reproduce.judges import JUDGES, JudgeInput
from nearfield.reproduce.outcome import JudgedStatement, verdict_of_claim


def case(curve: dict, **more) -> JudgeInput:
    given = {
        "other_curve": None,
        "paper_number": None,
        "position_range": None,
        "step_positions": (),
        "is_difference": False,
        "format_number": str,
        "format_x": str,
    }
    return JudgeInput(curve, **(given | more))


GOOD_AND_BAD = {
    "highest": (case({1: 10, 2: 19}, paper_number=(20, 20), position_range=(2, 3)), [
        case({1: 10, 2: 14}, paper_number=(20, 20), position_range=(2, 3)),
        case({1: 10, 2: 26}, paper_number=(20, 20), position_range=(2, 3)),
        case({1: 19, 2: 10}, paper_number=(20, 20), position_range=(2, 3)),
    ]),
    "at-least": (case({1: 0.5, 2: 0.14}, paper_number=(0.15, 0.15)),
        [case({1: 0.1, 2: 0.05}, paper_number=(0.15, 0.15))]),
    "at-most": (case({1: 0.1, 2: 0.17}, paper_number=(0.15, 0.15)),
        [case({1: 0.1, 2: 0.5}, paper_number=(0.15, 0.15))]),
    "mean-between": (case({1: 0.1, 2: 0.2}, paper_number=(0.15, 0.15), other_curve={1: 0.1, 2: 0.26}),
        [case({1: 0.1, 2: 0.01}, paper_number=(0.15, 0.15), other_curve={1: 0.1, 2: 0.1}),
         case({1: 0.3, 2: 0.3}, paper_number=(0.15, 0.15), other_curve={1: 0.5, 2: 0.1}),
         case({1: 0.01, 2: 0.01}, paper_number=(0.15, 0.15), other_curve={1: 0.5, 2: 0.5})]),
    "lowest": (case({1: 19, 2: 100}, paper_number=(20, 20)), [case({1: 14, 2: 19}, paper_number=(20, 20))]),
    "peaks": (case({1: 0, 2: 0.1}, position_range=(2, 3)), [case({1: 0.1, 2: 0}, position_range=(2, 3)),
        case({1: 0, 2: 0.01})]),
    "everywhere": (case({1: 7, 2: 12}, paper_number=(9, 10)), [case({1: 7, 2: 13}, paper_number=(9, 10))]),
    "same": (case({1: 1.04, 2: 0.96}), [case({1: 1.0, 2: 1.06}), case({1: 5}, other_curve={1: 6}),
        case({1: 5}, other_curve={2: 5})]),
    "more": (case({1: 1.02, 2: 2}), [case({1: 1.005, 2: 2}), case({1: 5}, other_curve={1: 6})]),
    "less": (case({1: 0.9, 2: 0.5}), [case({1: 0.995}), case({1: 0.2}, other_curve={1: 0.1}, is_difference=True)]),
    "no-more": (case({1: 1.005, 2: 0.5}), [
        case({1: 1.02, 2: 0.5}), case({1: 5}, other_curve={1: 4}),
        case({1: 0.2}, other_curve={1: 0.1}, is_difference=True),
        case({1: 1}, other_curve={1: 0}), case({1: 5}, other_curve={2: 5}),
    ]),
    "higher": (case({1: 5}, other_curve={7: 4}), [case({1: 4}, other_curve={7: 5}), case({1: 4}, other_curve={7: 4})]),
    "given": (case({1: 1, 2: 3}, alternative_curves=({1: 1, 2: 3}, {1: 0, 2: 2})), [
        case({1: 1, 2: 3}, alternative_curves=({1: 1, 2: 3}, {})),
        case({1: 1, 2: 3}, alternative_curves=({1: 1, 2: 3}, {1: 1})),
    ]),
    "all": (case({1: 1, 2: 3}), [case({1: 0.9, 2: 3})]),
    "none": (case({1: 0, 2: 0.01}), [case({1: 0, 2: 0.02})]),
    "some": (case({1: 0, 2: 0.02}), [case({1: 0, 2: 0.01})]),
    "never": (case({1: -0.5, 2: 0.01}), [case({1: 0, 2: 0.02})]),
    "grows": (case({1: 1, 2: 5, 3: 9}), [
        case({1: 9, 2: 5}), case({1: 1, 2: 9, 3: 5}), case({1: 5, 2: 5}), case({1: 1}),
    ]),
    "falls": (case({1: 9, 2: 5, 3: 1}), [case({1: 5, 2: 9}), case({1: 9, 2: 1, 3: 5})]),
    "flat": (case({1: 100, 2: 109}), [case({1: 100, 2: 112}), case({1: 100})]),
    "steps": (case({1: 1, 2: 1.1, 3: 2, 4: 2.1}, step_positions=(3,)), [
        case({1: 1, 2: 1.1, 3: 1.2}, step_positions=(2,)), case({1: 1}, step_positions=(1,)),
        case({1: 0.001, 2: 0.002}, step_positions=(2,), is_difference=True, is_gain=True),
    ]),
    "between": (case({1: 10, 2: 15, 3: 20}), [
        case({1: 10, 2: 22, 3: 20}), case({1: 20, 2: 8, 3: 10}), case({1: 1, 2: 2}),
    ]),
}  # fmt: skip


def test_every_judge_says_no_to_what_is_wrong() -> None:
    """Does each judge accept what it should, and reject every made-up curve that does not say it?"""
    assert set(GOOD_AND_BAD) == set(JUDGES)
    for name, (good, bad) in GOOD_AND_BAD.items():
        assert JUDGES[name].judge(good).holds, name
        for number, one in enumerate(bad):
            assert not JUDGES[name].judge(one).holds, (name, number)


def test_a_number_between_two_bounds_is_undecided() -> None:
    """Is the answer that one cannot tell if one bound is near the number, or both are on either side of it, and is the
    claim's verdict that, too?"""
    judge = JUDGES["mean-between"].judge
    for best, worst in (({1: 0.9, 2: 0.7}, {1: 0.1, 2: -0.3}), ({1: 0.4}, {1: 0.0}), ({1: 0.3}, {1: 0.8})):
        result = judge(case(best, paper_number=(0.37, 0.37), other_curve=worst))
        assert result.holds is None and result.numbers_text.startswith("cannot tell: mean of ")
    undecided = JudgedStatement(says="", paper="", ours="", holds=None, is_undecided=True, is_number=True)
    holds = undecided.model_copy(update={"holds": True, "is_undecided": False})
    assert verdict_of_claim([undecided]) == "cannot tell" and verdict_of_claim([undecided, holds]) == "in part"


@pytest.mark.parametrize(("own", "other", "same"), [
    (0.30, 0.27, True),  # 3 points, a tenth
    (0.30, 0.24, False),  # 6 points
    (0.04, 0.02, False),  # 2 points, but half of it
    (0.01, 0.002, True),  # less than a point
    (0.02, -0.02, False),
])  # fmt: skip
def test_gains_have_one_yardstick(own: float, other: float, same: bool) -> None:
    """Is a gain of 4 % not the same as one of 2 %, or as none, although both times are the same within 5 %?"""
    gain = {"is_difference": True, "is_gain": True}
    assert JUDGES["same"].judge(case({1: own}, other_curve={1: other}, **gain)).holds is same
    assert JUDGES["same"].judge(case({1: own - other}, **gain)).holds is (abs(own - other) <= 0.01)
    assert JUDGES["flat"].judge(case({1: own, 2: 2 * other - own}, **gain)).holds is same


def test_differences_of_counts_are_compared_relatively() -> None:
    """Are 1,000 misses spared the same as 1,040, and 1,000 not the same as 1,060, or none?"""
    count = {"is_difference": True, "is_count": True}
    assert JUDGES["same"].judge(case({1: 1040}, other_curve={1: 1000}, **count)).holds
    assert not JUDGES["same"].judge(case({1: 1060}, other_curve={1: 1000}, **count)).holds
    assert not JUDGES["same"].judge(case({1: 1000}, other_curve={1: 0}, **count)).holds
    assert JUDGES["flat"].judge(case({1: 1000, 2: 1080}, **count)).holds
    assert not JUDGES["flat"].judge(case({1: 10, 2: 12}, **count)).holds
    assert not JUDGES["flat"].judge(case({1: 0, 2: 0}, **count)).holds, "nothing is spared"
    assert JUDGES["more"].judge(case({1: 3}, **count)).holds and not JUDGES["more"].judge(case({1: -3}, **count)).holds


@pytest.mark.parametrize(("paper", "kind", "more", "same", "nothing"), [
    ("slightly better", "difference", 0.005, 0.05, 0.01),
    ("clearly improves performance", "difference", 0.05, 0.05, 0.01),
    ("a considerably and significantly higher number", "difference", 0.1, 0.05, 0.01),
    ("almost constant from stride 8", "equality", 0.01, 0.1, 0.02),
    ("no significant differences", "equality", 0.01, 0.1, 0.02),
])  # fmt: skip
def test_words_of_degree_set_the_thresholds(paper: str, kind: str, more: float, same: float, nothing: float) -> None:
    """Does a word of the paper change the thresholds of judges of its kind, the strongest word first, and of no
    others?"""
    found = degree_of(paper, kind)
    assert (found.min_difference, found.max_equal_difference, found.max_negligible) == (more, same, nothing)
    other = {"difference": "equality", "equality": ""}[kind]
    assert degree_of(paper, "") == degree_of("reduced", kind) == DEFAULT_DEGREE
    assert degree_of("clearly" if kind == "difference" else "almost", other) == DEFAULT_DEGREE
    assert degree_of("more important, and visible especially there", kind) == DEFAULT_DEGREE, "words that compare"


def test_judges_follow_words_of_degree() -> None:
    """Does each judge accept less with a word of strength, more with "slightly" and "almost", and is a judge of numbers
    left alone?"""
    gain = {"is_difference": True, "is_gain": True}
    strong, weak = (degree_of(word, "difference") for word in ("largely", "slightly"))
    loose = degree_of("almost", "equality")
    for name, least, less in (("more", 1.06, 1.007), ("less", 0.94, 0.993), ("some", 0.06, 0.007)):
        assert JUDGES[name].degree_kind == "difference"
        assert JUDGES[name].judge(case({1: least})).holds
        assert not JUDGES[name].judge(case({1: least}, degree=strong)).holds
        assert JUDGES[name].judge(case({1: less}, degree=weak)).holds and not JUDGES[name].judge(case({1: less})).holds
    for name, curve, more in (
        ("same", {1: 1.08}, {}), ("none", {1: 0.015}, {}), ("never", {1: 0.015}, {}), ("no-more", {1: 1.015}, {}),
        ("flat", {1: 1.0, 2: 1.15}, {}), ("same", {1: 0.018}, gain), ("flat", {1: 0.0, 2: 0.035}, gain),
    ):  # fmt: skip
        assert JUDGES[name].degree_kind == "equality"
        assert not JUDGES[name].judge(case(curve, **more)).holds
        assert JUDGES[name].judge(case(curve, degree=loose, **more)).holds, name
    assert not JUDGES["same"].judge(case({1: 0.04}, other_curve={1: 0.07}, degree=loose, **gain)).holds, (
        "not within a quarter"
    )
    assert JUDGES["grows"].judge(case({1: 1.0, 2: 1.08})).holds
    assert not JUDGES["grows"].judge(case({1: 1.0, 2: 1.08}, degree=strong)).holds
    assert not JUDGES["higher"].judge(case({1: 1.05}, other_curve={1: 1.0}, degree=strong)).holds
    assert not JUDGES["peaks"].judge(case({1: 0.05}, degree=strong)).holds
    assert not any(JUDGES[name].degree_kind for name, judge in JUDGES.items() if judge.needs_number)
