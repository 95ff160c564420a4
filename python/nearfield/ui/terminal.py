"""Prints for people on a terminal or in a pipe: the console, and the one kind of table that all verbs print.

Keys of rows, and words that somebody may have to type, are never cut or broken. A pipe has no width."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment
from rich.table import Table as RichTable
from rich.text import Text

NO_WIDTH = 1_000_000  # the width of a pipe or a file, where lines are never broken
GAP = 2  # spaces between columns, and before cells below the key of their row
NARROWEST_PROSE = 24


class Terminal(Console):
    """Breaks lines between words on a terminal, and nowhere in a pipe or a file. A word that is longer than a line,
    such as a path, stays in one piece, so that it can be copied. Names of emoji are not replaced: `:100:` of
    `file.c:100:` would be one."""

    def __init__(self, **more: Any) -> None:
        super().__init__(highlight=False, emoji=False, **more)
        if not self.is_terminal:
            self.width = NO_WIDTH

    def print(self, *objects: Any, **more: Any) -> None:
        texts = (item for item in objects if isinstance(item, str | Text))
        too_long = any(_longest_word(str(text)) > self.width for text in texts)
        super().print(*objects, **{"soft_wrap": too_long or None, "crop": False, **more})


def print_csv(rows: Sequence[Mapping[str, Any]]) -> None:
    """Prints rows as CSV with one header, for plots and other programs. Rows are those of --json: numbers in full
    precision, in the unit that the column's name says. A value that a row does not have is empty."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    writer = csv.DictWriter(sys.stdout, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)


# The console for progress and remarks, which are not part of a command's result.
err = Console(stderr=True, highlight=False, emoji=False, soft_wrap=True)


@dataclass(frozen=True)
class Column:
    """A column of a table."""

    heading: str = ""
    key: bool = False  # identifies the row, so it stands in every part of a split table
    prose: bool = False  # may be broken between words
    right: bool = False


class Table:
    """Rows with keys. If the terminal is too narrow for all columns, prose is broken between words; if that is not
    enough, the columns are split into several tables, each with the keys; and if a column does not fit beside the keys,
    each row becomes a block of lines. In a pipe each row is one line, or a block if `text`, since a line that is padded
    to several long sentences cannot be read. Cells are markup or Text of rich."""

    def __init__(self, *columns: Column, text: bool = False) -> None:
        self.columns = columns
        self.text = text
        self.rows: list[tuple[list[Text], str]] = []

    def add_row(self, *cells: str | Text, style: str = "") -> None:
        texts = [Text.from_markup(cell) if isinstance(cell, str) else cell for cell in cells]
        self.rows.append((texts, style))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        everything = range(len(self.columns))
        if self.text and options.max_width >= NO_WIDTH:
            yield from self._blocks(console, options.max_width)
        elif self._narrowest(everything) <= options.max_width:
            yield from self._draw(everything, console, options)
        elif parts := self._parts(options.max_width):
            for number, part in enumerate(parts):
                yield from [Text()] if number else []
                yield from self._draw(part, console, options)
        else:
            yield from self._blocks(console, options.max_width)

    # ---- widths

    def _texts(self, column: int) -> list[str]:
        return [self.columns[column].heading, *(cells[column].plain for cells, _ in self.rows)]

    def _whole(self, column: int) -> int:
        """Returns the width in which nothing is broken."""
        return max(map(cell_len, self._texts(column)))

    def _least(self, column: int) -> int:
        """Returns the width in which only prose and headings are broken, between words."""
        heading, *cells = self._texts(column)
        if self.columns[column].prose:
            longest = max(map(_longest_word, [heading, *cells]))
            return max(longest, min(self._whole(column), NARROWEST_PROSE))
        return max([_longest_word(heading), *map(cell_len, cells)])

    def _alone(self, column: int) -> int:
        """Returns the width that a column should have if it stands beside the keys only."""
        return self._whole(column) if self.columns[column].prose else self._least(column)

    def _narrowest(self, columns: Sequence[int]) -> int:
        return sum(map(self._least, columns)) + GAP * (len(columns) - 1)

    def _widths(self, columns: Sequence[int], width: int) -> dict[int, int]:
        """Returns each column's width: its least, and a share of the rest; columns that need little more come first."""
        widths = {column: self._least(column) for column in columns}
        spare = width - self._narrowest(columns)
        wanting = sorted(columns, key=lambda column: self._whole(column) - widths[column])
        for others, column in zip(range(len(wanting), 0, -1), wanting, strict=True):
            more = min(self._whole(column) - widths[column], spare // others)
            widths[column] += more
            spare -= more
        return widths

    # ---- three ways to draw

    def _draw(self, columns: Sequence[int], console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        headings = any(self.columns[column].heading for column in columns)
        table = RichTable(box=None, padding=(0, GAP, 0, 0), pad_edge=False, header_style="bold", show_header=headings)
        for column, width_of_column in self._widths(columns, options.max_width).items():
            one = self.columns[column]
            table.add_column(Text(one.heading), justify="right" if one.right else "left", width=width_of_column)
        for cells, style in self.rows:
            table.add_row(*(cells[column] for column in columns), style=style)
        for line in console.render_lines(table, options, pad=False):
            yield from _without_trailing_blanks(line)
            yield Segment.line()

    def _parts(self, width: int) -> list[list[int]]:
        """Returns parts of columns that fit side by side, each with the keys; none if a column does not fit there."""
        keys = [column for column, one in enumerate(self.columns) if one.key]
        rest = [column for column, one in enumerate(self.columns) if not one.key]
        room = width - self._narrowest(keys) - GAP
        if room < width / 2 or any(self._alone(column) > room for column in rest):
            return []
        parts: list[list[int]] = []
        for column in rest:
            if parts and self._narrowest([*parts[-1], column]) <= width:
                parts[-1].append(column)
            else:
                parts.append([*keys, column])
        return parts

    def _blocks(self, console: Console, width: int) -> Iterator[Text]:
        for cells, style in self.rows:
            named = [(column, cell) for column, cell in zip(self.columns, cells, strict=True) if cell]
            keys = Text("  ").join(cell for column, cell in named if column.key)
            keys.stylize("bold")
            yield from [_prevent_breaks(keys)] if keys else []
            said = [(column, _said(column, cell, style)) for column, cell in named if not column.key]
            for line in _pack(said, console, width - GAP):
                yield _prevent_breaks(Text(" " * GAP).append_text(line))


def _said(column: Column, cell: Text, style: str) -> Text:
    heading = f"{column.heading}: " if column.heading else ""
    return Text.assemble((heading, "dim"), cell, style=style)


def _pack(said: list[tuple[Column, Text]], console: Console, width: int) -> list[Text]:
    """Returns lines: prose has its own, and as many other cells as fit share one."""
    lines: list[Text] = []
    open_line = False
    for column, text in said:
        if column.prose:
            lines += _break_text(text, console, width)
        elif open_line and lines[-1].cell_len + GAP + text.cell_len <= width:
            lines[-1].append(" " * GAP).append_text(text)
        else:
            lines.append(text)
        open_line = not column.prose
    return lines


def _break_text(text: Text, console: Console, width: int) -> list[Text]:
    """Returns the text broken between words, or in one line if a word is longer than a line."""
    if _longest_word(text.plain) > width:
        return [text]
    lines = list(text.wrap(console, width))
    for line in lines:
        line.rstrip()
    return lines


def _without_trailing_blanks(line: list[Segment]) -> list[Segment]:
    while line and not line[-1].text.strip():
        line = line[:-1]
    return [*line[:-1], Segment(line[-1].text.rstrip(), line[-1].style)] if line else []


def _prevent_breaks(line: Text) -> Text:
    line.no_wrap, line.overflow = True, "ignore"
    return line


def _longest_word(text: str) -> int:
    return max(map(cell_len, text.split()), default=0)
