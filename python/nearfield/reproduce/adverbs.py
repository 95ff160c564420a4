"""Translates the papers' words of degree into numbers, by one table for all statements alike. The words are found in
the quoted text and never chosen for a statement.

A word changes a threshold of judges.py by a factor of two. "Almost" doubles the tolerance of what is the same;
"slightly" halves what counts as a difference. A word of strength asks for more than what is the same ("clearly", 5 %),
or for twice as much ("significantly", 10 %). A comparison without such a word keeps the plain thresholds: the same
within 5 %, more from 1 % on. Left out are words that compare and give no degree ("more important", "especially",
"noise")."""

from __future__ import annotations

import re
from dataclasses import dataclass

SAME_TOLERANCE = 0.05  # relative, but absolute for gains and for differences of counts per line
MIN_DIFFERENCE = 0.01


@dataclass(frozen=True)
class Degree:
    """The thresholds of one statement. `word`: the word of the paper that changed them; '' for the plain ones."""

    word: str = ""
    more: float = MIN_DIFFERENCE  # a difference is larger than this
    same: float = SAME_TOLERANCE  # equal numbers differ by at most this
    nothing: float = MIN_DIFFERENCE  # an effect up to this is none


PLAIN_DEGREE = Degree()
# Words of differences, each with the smallest difference that it stands for. Of several, the largest one counts.
DIFFERENCE_WORDS = {
    "slightly": MIN_DIFFERENCE / 2,
    "clear|clearly|noticeably|considerably": SAME_TOLERANCE,
    "significant|significantly|largely|much|steep|large fraction": 2 * SAME_TOLERANCE,
}
# Words that leave room for what is the same: twice as much.
EQUALITY_WORDS = (
    "almost|nearly|near constant|hardly|relatively|comparable|similar|tends to|not really|no significant|"
    "very small fraction|small differences|varies little"
)


def degree_of(paper: str, kind: str) -> Degree:
    """Returns the thresholds for the quoted text of a paper. `kind` is that of the judge: "difference", "equality", or
    "" for one that compares with a number."""
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
