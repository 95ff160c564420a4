"""Shell completion of option values: MPIs of this machine, described machines, scenarios, formats. Each function
returns the names that begin with the incomplete word."""

from __future__ import annotations

from collections.abc import Callable, Iterable


def _make_completer(list_all: Callable[[], Iterable[str]]) -> Callable[[str], list[str]]:
    """Returns a completion function. Names are listed only when the function is called, because the search for MPIs is
    slow."""
    return lambda incomplete: [name for name in list_all() if name.startswith(incomplete)]


def _list_mpis() -> Iterable[str]:
    from nearfield import mpi

    return (inst.name for inst in mpi.find_usable_mpis())


def _list_machines() -> Iterable[str]:
    from nearfield.machine import machine_files

    return machine_files()


def _list_machines_and_live() -> Iterable[str]:
    return "here", *_list_machines()


def _list_scenarios() -> Iterable[str]:
    """Returns the names of scenarios: the source files in all `scenarios` folders, except helpers, which have a header
    file."""
    from nearfield.mpi import native_source_folder

    files = (native_source_folder() / "src").rglob("scenarios/*.cpp")
    return sorted({file.stem for file in files if not file.with_suffix(".hpp").exists()})


def _list_trace_formats() -> Iterable[str]:
    from nearfield.simulate.trace import trace_format_by_name

    return trace_format_by_name()


def _list_rules_formats() -> Iterable[str]:
    from nearfield.apply.formats import FORMATS

    return FORMATS


mpis, machines, machines_and_live, scenarios, formats, trace_formats = map(
    _make_completer,
    (_list_mpis, _list_machines, _list_machines_and_live, _list_scenarios, _list_rules_formats, _list_trace_formats),
)
