"""Reads the events of one stream, and stores the objects, texts, call sites and layouts to which later events refer by
number."""

from __future__ import annotations

from typing import Any

from nearfield._native import stream
from nearfield.observe.source_lines import CodeLocation, SourceLine, line_of_call


class StreamEvents:
    """Calls `on_NAME(**fields)` for each event of a stream for which the class has such a method. Names are those of
    the events in src/trace/stream/events.hpp."""

    def __init__(self, line_by_location: dict[tuple[str, int], SourceLine]) -> None:
        self.line_by_location = line_by_location
        self.path_by_object: dict[int, str] = {}
        self._text_by_number: dict[int, str] = {}
        self._frames_by_call_site: dict[int, list[CodeLocation]] = {}  # locations of the call and of its callers
        self._element_bytes_by_layout: dict[int, int] = {}  # of each datatype layout

    def read(self, reader: stream.Reader) -> None:
        """Reads the whole stream. Raises BrokenStream."""
        self.skip_accesses(reader)
        while event := reader.event():
            name, fields = event
            if handle := getattr(self, f"on_{name}", None):
                handle(**fields)
            self.skip_accesses(reader)

    def skip_accesses(self, reader: stream.Reader) -> None:
        """Reads the accesses up to the next event."""
        reader.pass_accesses()

    def text_of(self, text: int) -> str:
        """Returns the text with this number: the name of an MPI function or of a region."""
        return self._text_by_number.get(text, "?")

    def line_of_call(self, name: int, call_site: int) -> SourceLine:
        """Returns the source line of an MPI call."""
        return line_of_call(
            self.line_by_location, self.text_of(name), self._frames_by_call_site.get(call_site, [("", 0)])
        )

    def total_bytes_of(self, *buffers: dict[str, int]) -> int:
        """Returns the number of bytes in these buffers together."""
        return sum(data["count"] * self._element_bytes_by_layout.get(data["layout"], 0) for data in buffers)

    def on_text(self, text: int, **fields: str) -> None:
        self._text_by_number[text] = fields["is"]

    def on_object(self, object: int, path: str) -> None:  # noqa: A002  # name of the event's field
        self.path_by_object[object] = path

    def on_call_site(self, call_site: int, object: int, offset: int, callers: list[int]) -> None:  # noqa: A002
        numbers = [object, offset, *callers]
        frames = [(self.path_by_object.get(numbers[i], ""), numbers[i + 1]) for i in range(0, len(numbers), 2)]
        self._frames_by_call_site[call_site] = frames

    def on_layout(self, layout: int, size_bytes: int, **_: Any) -> None:
        self._element_bytes_by_layout[layout] = size_bytes
