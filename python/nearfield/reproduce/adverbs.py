"""Translates the papers' words of degree into thresholds, by one table for all statements. The words are searched in
the quoted text and never chosen for a statement.

A word of degree changes a threshold of judges.py by a factor of two. "Almost" doubles the tolerance for equality;
"slightly" halves the minimum difference. A word of strength raises the minimum difference to the tolerance for equality
("clearly", 5 %) or to twice that ("significantly", 10 %). Without such a word, numbers are equal within 5 %, and differ
from 1 % on. Words that compare without a degree ("more important", "especially", "noise") are not in the table."""

from __future__ import annotations

import re
from dataclasses import dataclass

# Maximum relative difference of equal numbers; absolute for gains and differences of counts per line.
SAME_TOLERANCE = 0.05
MIN_DIFFERENCE = 0.01


@dataclass(frozen=True)
class Degree:
    """The thresholds for one statement. `word` is the paper's word of degree that changed them; '' without one."""

    word: str = ""
    more: float = MIN_DIFFERENCE  # minimum difference
    same: float = SAME_TOLERANCE  # maximum difference of equal numbers
    nothing: float = MIN_DIFFERENCE  # maximum size of an effect that counts as none


PLAIN_DEGREE = Degree()
# Words of degree for differences -> the minimum difference. Of several words, the largest difference counts.
DIFFERENCE_WORDS = {
    "slightly": MIN_DIFFERENCE / 2,
    "clear|clearly|noticeably|considerably": SAME_TOLERANCE,
    "significant|significantly|largely|much|steep|large fraction": 2 * SAME_TOLERANCE,
}
# Words of degree for equality, which double the tolerance.
EQUALITY_WORDS = (
    "almost|nearly|near constant|hardly|relatively|comparable|similar|tends to|not really|no significant|"
    "very small fraction|small differences|varies little"
)


def degree_of(paper: str, kind: str) -> Degree:
    """Returns the thresholds for a quoted text of a paper. `kind` is that of the judge: "difference", "equality", or ""
    for a judge that compares with a number."""
    if kind == "equality" and (found := _find_word(EQUALITY_WORDS, paper)):
        return Degree(found, same=2 * SAME_TOLERANCE, nothing=2 * MIN_DIFFERENCE)
    if kind == "difference":
        words = [(least, found) for words, least in DIFFERENCE_WORDS.items() if (found := _find_word(words, paper))]
        if words:
            least, found = max(words)
            return Degree(found, more=least)
    return PLAIN_DEGREE


def _find_word(words: str, text: str) -> str:
    match = re.search(rf"\b({words})\b", text, re.IGNORECASE)
    return match[1].lower() if match else ""
