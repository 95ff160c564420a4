"""Explains messages that MPIs print where a container or a node lacks something, by the table messages.toml."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from pydantic import Field, field_validator

from nearfield.base.toml import Table, parse_toml

MESSAGES_FILE = Path(__file__).with_name("messages.toml")
# The prefixes that launchers and MPIs put before a line: "[host:pid]", "[1,2]<stderr>:", "2020-01-01T00:00:00.0Z",
# "rank 3:", "> ".
_LINE_PREFIX = re.compile(
    r"(?:>\s*|\[\d+,\d+\]<\w+>:\s*|\[[\w.-]+:\d+(?::\d+)*:?\w*\]\s*|\d{4}-\d\d-\d\d[T ][\d:.,]+Z?\s*|\[\d+\]\s+|\d+: )+"
)


class KnownMessage(Table):
    """One entry of the table."""

    name: str = Field(pattern=r"^[a-z0-9-]+$")
    quote: str
    printed_by: str
    patterns: list[str] = Field(min_length=1)
    cause: str
    remedy: str
    check: str = ""  # the name of a function of a check; empty if there is none
    sources: list[str] = Field(min_length=1)

    @field_validator("patterns")
    @classmethod
    def _compile(cls, patterns: list[str]) -> list[str]:
        for pattern in patterns:
            re.compile(pattern)
        return patterns

    def find_matching_text(self, text: str) -> str:
        """Returns the part of a text (normalized by `normalize_text`) that one of the patterns matches; empty if none
        does."""
        found = (re.search(pattern, text) for pattern in self.patterns)
        return next((match[0] for match in found if match), "")


class KnownMessages(Table):
    """The content of messages.toml."""

    message: list[KnownMessage]


@dataclass(frozen=True)
class ExplainedMessage:
    """An entry that matches a text, and the part of the text that it matches."""

    message: KnownMessage
    matched_text: str


@cache
def messages() -> tuple[KnownMessage, ...]:
    """Returns the table."""
    return tuple(parse_toml(KnownMessages, MESSAGES_FILE.read_bytes(), MESSAGES_FILE, "Reinstall nearfield.").message)


def normalize_text(text: str) -> str:
    """Returns the text in one line, without what launchers and MPIs put before lines, and without control
    characters."""
    printable = re.sub(r"\x1b\[[0-9;]*m", "", text)
    lines = (_LINE_PREFIX.sub("", line.strip(), count=1) for line in printable.splitlines())
    return " ".join(re.sub(r"[\x00-\x1f\x7f-\x9f]", " ", " ".join(lines)).split())


def find_explanations(text: str) -> list[ExplainedMessage]:
    """Returns the entries that fit a text, in the order of the table."""
    line = normalize_text(text)
    return [ExplainedMessage(message, words) for message in messages() if (words := message.find_matching_text(line))]


def quotes_of_check(check: str) -> tuple[str, ...]:
    """Returns the messages that MPIs print on machines where this check of `doctor` fails."""
    return tuple(message.quote for message in messages() if message.check == check)
