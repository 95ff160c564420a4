"""Native algorithms of Intel MPI, whose variables I_MPI_ADJUST_<OPERATION> select presets by length and number of
ranks.

`impi_info` prints the number of presets; their algorithms are not documented. The variables are read at program start,
so presets are measured in alternating launches. The variables also apply to user-defined operators."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping, Sequence

from nearfield.base.errors import MpiError, UsageError
from nearfield.base.progress import ReportLine
from nearfield.mpi import Installation
from nearfield.rules.collective_tables import NativeCollectiveTable
from nearfield.rules.collectives import MPI_ALGORITHM, NATIVE_OPERATIONS
from nearfield.rules.native.family import QUERY_TIME_LIMIT_S, NativeAlgorithm, NativeFamily, NativeSelection

_MAX_LENGTH = (1 << 31) - 1  # largest length in a variable


def _variable_of_operation(operation: str) -> str:
    return f"I_MPI_ADJUST_{operation.upper()}"


def _list_algorithms(inst: Installation, report: ReportLine) -> Mapping[str, Sequence[NativeAlgorithm]]:
    found = {}
    for operation in NATIVE_OPERATIONS:
        variable = _variable_of_operation(operation)
        numbers = range(1, _find_last_preset(inst, variable) + 1)  # preset 0 means that Intel MPI decides
        found[operation] = [NativeAlgorithm(f"preset-{number}", {variable: number}, number) for number in numbers]
    return found


def _find_last_preset(inst: Installation, variable: str) -> int:
    command = [str(inst.root / "bin" / "impi_info"), "-v", variable]
    try:
        done = subprocess.run(
            command, env=dict(inst.env), capture_output=True, text=True, errors="replace", timeout=QUERY_TIME_LIMIT_S
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MpiError(f"cannot list the presets of {inst.name}: {command[0]} fails ({error})") from error
    range_text = re.search(r"range:\s*\d+\s*-\s*(\d+)", done.stdout)
    if not range_text:
        raise MpiError(f"{command[0]} does not report the number of presets of {variable}")
    return int(range_text[1])


def _make_selection(tables: Sequence[NativeCollectiveTable], inst: Installation | None) -> NativeSelection:
    values: dict[str, list[str]] = {}
    for table in tables:
        begin = 0
        for one in table.range:
            end = _MAX_LENGTH if one.to_bytes is None else min(one.to_bytes, _MAX_LENGTH)
            if one.algorithm != MPI_ALGORITHM:
                if one.id is None:
                    raise UsageError(f"{table.operation}: '{one.algorithm}' has no id", "Intel MPI needs its number")
                places = values.setdefault(_variable_of_operation(table.operation), [])
                places.append(f"{one.id}:{begin}-{end}@{table.ranks}-{table.ranks}")
            begin = end + 1
    return NativeSelection({variable: ";".join(places) for variable, places in values.items()})


SPEC = NativeFamily(
    name="intel",
    measurement_mode="launches",
    list_algorithms=_list_algorithms,
    make_selection=_make_selection,
    excludes_user_operators=False,
)
