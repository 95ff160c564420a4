"""Human-readable output on a terminal or in a pipe: the console, and the kind of table that all verbs print.

Row keys, and words that a user may have to type, are never truncated or broken across lines. A pipe has no line
width."""

from __future__ import annotations

import csv
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markup import escape
from rich.segment import Segment
from rich.table import Table as RichTable
from rich.text import Text

from nearfield.base.errors import NearfieldError

UNLIMITED_LINE_WIDTH = 1_000_000  # line width for pipes and files, so that lines are never broken
COLUMN_GAP = 2  # spaces between columns, and indent of a block below its row's key
MIN_PROSE_WIDTH = 24


class Terminal(Console):
    """A console that breaks lines between words on a terminal, and nowhere in a pipe or file. A word longer than the
    line, such as a path, is not broken, so that users can copy it. Emoji names are not replaced: `file.c:100:` contains
    `:100:`."""

    def __init__(self, **more: Any) -> None:
        super().__init__(highlight=False, emoji=False, **more)
        if not self.is_terminal:
            self.width = UNLIMITED_LINE_WIDTH

    def print(self, *objects: Any, **more: Any) -> None:
        texts = (item for item in objects if isinstance(item, str | Text))
        too_long = any(_longest_word_length(str(text)) > self.width for text in texts)
        super().print(*objects, **{"soft_wrap": too_long or None, "crop": False, **more})


@contextmanager
def program_output_to_stderr(is_active: bool) -> Iterator[None]:
    """If `is_active` is set, what this process and its children write to standard output goes to standard error during
    a `with` block, so that the output of a user's program does not mix with data that is printed behind the block."""
    if not is_active:
        yield
        return
    sys.stdout.flush()
    before = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(before, 1)
        os.close(before)


def print_csv(rows: Sequence[Mapping[str, Any]]) -> None:
    """Prints rows as CSV with one header line. The rows are those of --json: numbers in full precision, in the unit
    that the column's name states. Missing values are empty."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    writer = csv.DictWriter(sys.stdout, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)


# Console on standard error for progress and remarks, which are not part of a command's result.
err = Console(stderr=True, highlight=False, emoji=False, soft_wrap=True)


def print_error(error: NearfieldError) -> None:
    """Prints an error and its remedy."""
    err.print(f"[bold red]error:[/bold red] {escape(error.message)}")
    if error.remedy:
        err.print(f"  [dim]→[/dim] {escape(error.remedy)}")


@dataclass(frozen=True)
class Column:
    """A column of a table."""

    heading: str = ""
    key: bool = False  # identifies the row; repeated in each part of a split table
    prose: bool = False  # the cells may be broken between words
    right: bool = False


class Table:
    """Rows of cells with key columns. If the terminal is too narrow, prose is broken between words. If that is not
    enough, the columns are split over several tables, each with the key columns. If a column does not fit beside the
    keys, each row becomes a block of lines. In a pipe each row is one line, or a block if `text`, because padded lines
    with several long sentences are unreadable. Cells are rich markup or rich Text."""

    def __init__(self, *columns: Column, text: bool = False) -> None:
        self.columns = columns
        self.text = text
        self.rows: list[tuple[list[Text], str]] = []

    def add_row(self, *cells: str | Text, style: str = "") -> None:
        texts = [Text.from_markup(cell) if isinstance(cell, str) else cell for cell in cells]
        self.rows.append((texts, style))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        everything = range(len(self.columns))
        if self.text and options.max_width >= UNLIMITED_LINE_WIDTH:
            yield from self._draw_blocks(console, options.max_width)
        elif self._min_total_width(everything) <= options.max_width:
            yield from self._draw_table(everything, console, options)
        elif parts := self._split_columns(options.max_width):
            for number, part in enumerate(parts):
                yield from [Text()] if number else []
                yield from self._draw_table(part, console, options)
        else:
            yield from self._draw_blocks(console, options.max_width)

    # ---- widths of columns

    def _column_texts(self, column: int) -> list[str]:
        return [self.columns[column].heading, *(cells[column].plain for cells, _ in self.rows)]

    def _unbroken_width(self, column: int) -> int:
        """Returns the column width at which no cell is broken."""
        return max(map(cell_len, self._column_texts(column)))

    def _min_width(self, column: int) -> int:
        """Returns the smallest column width, at which only prose and headings are broken, between words."""
        heading, *cells = self._column_texts(column)
        if self.columns[column].prose:
            longest = max(map(_longest_word_length, [heading, *cells]))
            return max(longest, min(self._unbroken_width(column), MIN_PROSE_WIDTH))
        return max([_longest_word_length(heading), *map(cell_len, cells)])

    def _preferred_width(self, column: int) -> int:
        """Returns the preferred width of a column that is the only one beside the keys."""
        return self._unbroken_width(column) if self.columns[column].prose else self._min_width(column)

    def _min_total_width(self, columns: Sequence[int]) -> int:
        return sum(map(self._min_width, columns)) + COLUMN_GAP * (len(columns) - 1)

    def _choose_widths(self, columns: Sequence[int], width: int) -> dict[int, int]:
        """Returns the width of each column: the smallest width plus a share of the remaining space. Columns that need
        little more space are served first."""
        widths = {column: self._min_width(column) for column in columns}
        spare = width - self._min_total_width(columns)
        wanting = sorted(columns, key=lambda column: self._unbroken_width(column) - widths[column])
        for others, column in zip(range(len(wanting), 0, -1), wanting, strict=True):
            more = min(self._unbroken_width(column) - widths[column], spare // others)
            widths[column] += more
            spare -= more
        return widths

    # ---- drawing: a table, a split table, or blocks

    def _draw_table(self, columns: Sequence[int], console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        headings = any(self.columns[column].heading for column in columns)
        table = RichTable(
            box=None, padding=(0, COLUMN_GAP, 0, 0), pad_edge=False, header_style="bold", show_header=headings
        )
        for column, width_of_column in self._choose_widths(columns, options.max_width).items():
            one = self.columns[column]
            table.add_column(Text(one.heading), justify="right" if one.right else "left", width=width_of_column)
        for cells, style in self.rows:
            table.add_row(*(cells[column] for column in columns), style=style)
        for line in console.render_lines(table, options, pad=False):
            yield from _without_trailing_blanks(line)
            yield Segment.line()

    def _split_columns(self, width: int) -> list[list[int]]:
        """Splits the columns into groups that fit the width, each with the key columns. Returns [] if some column does
        not fit beside the keys."""
        keys = [column for column, one in enumerate(self.columns) if one.key]
        rest = [column for column, one in enumerate(self.columns) if not one.key]
        room = width - self._min_total_width(keys) - COLUMN_GAP
        if room < width / 2 or any(self._preferred_width(column) > room for column in rest):
            return []
        parts: list[list[int]] = []
        for column in rest:
            if parts and self._min_total_width([*parts[-1], column]) <= width:
                parts[-1].append(column)
            else:
                parts.append([*keys, column])
        return parts

    def _draw_blocks(self, console: Console, width: int) -> Iterator[Text]:
        for cells, style in self.rows:
            named = [(column, cell) for column, cell in zip(self.columns, cells, strict=True) if cell]
            keys = Text("  ").join(cell for column, cell in named if column.key)
            keys.stylize("bold")
            yield from [_prevent_breaks(keys)] if keys else []
            said = [(column, _label_cell(column, cell, style)) for column, cell in named if not column.key]
            for line in _pack_cells_into_lines(said, console, width - COLUMN_GAP):
                yield _prevent_breaks(Text(" " * COLUMN_GAP).append_text(line))


def _label_cell(column: Column, cell: Text, style: str) -> Text:
    heading = f"{column.heading}: " if column.heading else ""
    return Text.assemble((heading, "dim"), cell, style=style)


def _pack_cells_into_lines(labeled_cells: list[tuple[Column, Text]], console: Console, width: int) -> list[Text]:
    """Packs the cells of a row into lines: prose gets lines of its own, and other cells share a line as long as they
    fit."""
    lines: list[Text] = []
    open_line = False
    for column, text in labeled_cells:
        if column.prose:
            lines += _break_text(text, console, width)
        elif open_line and lines[-1].cell_len + COLUMN_GAP + text.cell_len <= width:
            lines[-1].append(" " * COLUMN_GAP).append_text(text)
        else:
            lines.append(text)
        open_line = not column.prose
    return lines


def _break_text(text: Text, console: Console, width: int) -> list[Text]:
    """Breaks the text between words into lines. If a word is longer than a line, returns the text as one line."""
    if _longest_word_length(text.plain) > width:
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


def _longest_word_length(text: str) -> int:
    return max(map(cell_len, text.split()), default=0)
