"""Native algorithms of Open MPI's component `tuned`, which implements the collectives within a node.

The component lists its algorithms with their numbers through MPI_T. A communicator uses the algorithms that the
variables select at its creation. A selection is a rules file in the classic format, which all versions read, with rules
by collective, number of ranks and length. The lengths in the file are the bytes of the vector, or of the blocks of all
ranks together. For gather and scatter each rank computes the length from arguments that are significant only at some
ranks, so ranks may disagree; these two operations are not supported. The rules also apply to user-defined operators, so
an algorithm that does not preserve the order of the operands is dropped."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from nearfield.base.errors import MpiError, UsageError
from nearfield.base.progress import ReportLine
from nearfield.mpi import Installation
from nearfield.rules.collective_tables import NativeCollectiveTable
from nearfield.rules.collectives import MPI_ALGORITHM, NATIVE_OPERATIONS
from nearfield.rules.native.family import NativeAlgorithm, NativeFamily, NativeSelection, list_control_variables

_NUMBER_BY_OPERATION = {  # operation -> number of the collective in the rules file
    "allgather": 0, "allreduce": 2, "alltoall": 3, "barrier": 6, "bcast": 7, "reduce": 11, "reduce_scatter": 12,
}  # fmt: skip
_OPERATIONS_WITH_BLOCKS = ("allgather", "alltoall")
_MPI_DECIDES_NUMBER = 0  # algorithm number 0: Open MPI decides
_FANOUT, _SEGMENT_BYTES = 4, 0  # fan-out of trees and chains, and segment size (0: no segments)
_SWITCH_VARIABLE = "OMPI_MCA_coll_tuned_use_dynamic_rules"
_FILE_VARIABLE = "OMPI_MCA_coll_tuned_dynamic_rules_filename"


def _list_algorithms(inst: Installation, report: ReportLine) -> Mapping[str, Sequence[NativeAlgorithm]]:
    known = {one["variable"]: one["items"] for one in list_control_variables(inst, "coll_tuned_", report)}
    found = {}
    for operation in NATIVE_OPERATIONS:
        variable = f"coll_tuned_{operation}_algorithm"
        fixed = {"segmentsize": _SEGMENT_BYTES, "tree_fanout": _FANOUT, "chain_fanout": _FANOUT}
        common = {f"{variable}_{name}": value for name, value in fixed.items() if f"{variable}_{name}" in known}
        found[operation] = [
            NativeAlgorithm(name, {variable: number, **common}, number)
            for name, number in known.get(variable, {}).items()
            if number != _MPI_DECIDES_NUMBER
        ]
    if not any(found.values()):
        raise MpiError(f"{inst.name} has no algorithms to choose from: its component coll/tuned is missing")
    return found


def _make_selection(tables: Sequence[NativeCollectiveTable], inst: Installation | None) -> NativeSelection:
    operations = [name for name in _NUMBER_BY_OPERATION if any(one.operation == name for one in tables)]
    lines = [f"{len(operations)} # collectives"]
    for operation in operations:
        own = {one.ranks: one for one in tables if one.operation == operation}
        sizes = sorted({0, *own, *(ranks + 1 for ranks in own)})
        lines += [
            f"{_NUMBER_BY_OPERATION[operation]} # {operation}",
            f"{len(sizes)} # numbers of ranks, from each up to the next",
        ]
        for ranks in sizes:
            rules = (
                list(_format_rule_lines(own[ranks])) if ranks in own else [_format_rule_line(0, _MPI_DECIDES_NUMBER)]
            )
            lines += [f"{ranks} # ranks", f"{len(rules)} # rules: from bytes, algorithm, fan-out, segment", *rules]
    return NativeSelection({_SWITCH_VARIABLE: "1"}, {_FILE_VARIABLE: ("collectives.conf", "\n".join([*lines, ""]))})


def _format_rule_lines(table: NativeCollectiveTable) -> Iterator[str]:
    """Yields the lines of the rules file for one number of ranks. Each line has the length from which on its algorithm
    is used."""
    blocks = table.ranks if table.operation in _OPERATIONS_WITH_BLOCKS else 1
    begin = 0
    for one in table.range:
        if one.algorithm != MPI_ALGORITHM and one.id is None:
            raise UsageError(f"{table.operation}: '{one.algorithm}' has no id", "Open MPI's rules need its number")
        yield _format_rule_line(
            begin, _MPI_DECIDES_NUMBER if one.algorithm == MPI_ALGORITHM else one.id or _MPI_DECIDES_NUMBER
        )
        if one.to_bytes is not None:
            begin = one.to_bytes * blocks + 1


def _format_rule_line(from_bytes: int, algorithm: int) -> str:
    return f"{from_bytes} {algorithm} {_FANOUT if algorithm else 0} {_SEGMENT_BYTES}"


SPEC = NativeFamily(
    name="openmpi",
    measurement_mode="native-communicators",
    list_algorithms=_list_algorithms,
    make_selection=_make_selection,
    excludes_user_operators=False,
    measurement_variables={_SWITCH_VARIABLE: "1"},
)
