"""Translates a paper's words of degree ("slightly", "almost") into thresholds, by one table for all statements. The
words are found in the text quoted from the paper; they cannot be set for a single statement.

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
    """The thresholds for judging one statement. `word` is the paper's word of degree that changed them; '' if there is
    none."""

    word: str = ""
    min_difference: float = MIN_DIFFERENCE  # minimum difference
    max_equal_difference: float = SAME_TOLERANCE  # maximum difference of equal numbers
    max_negligible: float = MIN_DIFFERENCE  # largest effect that counts as no effect


DEFAULT_DEGREE = Degree()
# Words of degree for differences -> minimum difference. If a text has several of the words, the largest value applies.
MIN_DIFFERENCE_BY_WORDS = {
    "slightly": MIN_DIFFERENCE / 2,
    "clear|clearly|noticeably|considerably": SAME_TOLERANCE,
    "significant|significantly|largely|much|steep|large fraction": 2 * SAME_TOLERANCE,
}
# Words of degree for equality, which double the tolerance.
EQUALITY_WORD_PATTERN = (
    "almost|nearly|near constant|hardly|relatively|comparable|similar|tends to|not really|no significant|"
    "very small fraction|small differences|varies little"
)


def degree_of(quoted_text: str, degree_kind: str) -> Degree:
    """Returns the thresholds for a text quoted from a paper. `degree_kind` is "difference" or "equality", depending on
    the judge, or "" for a judge that compares with a number."""
    if degree_kind == "equality" and (word := _find_word(EQUALITY_WORD_PATTERN, quoted_text)):
        return Degree(word, max_equal_difference=2 * SAME_TOLERANCE, max_negligible=2 * MIN_DIFFERENCE)
    if degree_kind == "difference":
        matches = [
            (least, word)
            for words, least in MIN_DIFFERENCE_BY_WORDS.items()
            if (word := _find_word(words, quoted_text))
        ]
        if matches:
            min_difference, word = max(matches)
            return Degree(word, min_difference=min_difference)
    return DEFAULT_DEGREE


def _find_word(word_pattern: str, text: str) -> str:
    match = re.search(rf"\b({word_pattern})\b", text, re.IGNORECASE)
    return match[1].lower() if match else ""
