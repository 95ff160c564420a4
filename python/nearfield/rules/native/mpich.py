"""Native algorithms of MPICH, which selects them by decision trees in JSON that its library contains.

A selection is a modified copy of the library's own trees in files (named by MPIR_CVAR_COLL_SELECTION_TUNING_JSON_FILE,
and by a second variable for the device's shared-memory collectives), with new branches for some numbers of ranks. Since
a file replaces the whole tree, the library's tree is needed. Where an algorithm of the message tree is selected, the
shared-memory tree gets a branch whose condition never holds, so that the call falls through to the message tree.

Only algorithms that appear in the library's tree are used; the others have parameters that a tree must supply. The
hierarchical algorithm "smp" is excluded: it aborts the program on communicators without a hierarchy, and a rule by
number of ranks cannot exclude such communicators. Reductions with user-defined operators or with fewer elements than
ranks, and in-place all-to-alls, keep MPICH's selection. MPICH reads the variables that force an algorithm in each call.
Reduce-scatter is not supported, because the conditions of a tree cannot test whether its operator is predefined."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nearfield.base.errors import MpiError, UsageError
from nearfield.base.progress import ReportLine
from nearfield.mpi import Installation
from nearfield.rules.collective_tables import NativeCollectiveTable, NativeRangeTable
from nearfield.rules.collectives import MPI_ALGORITHM, NATIVE_OPERATIONS
from nearfield.rules.native.family import NativeAlgorithm, NativeFamily, NativeSelection, list_control_variables

DecisionTree = dict[str, Any]
_SUPPORTED_OPERATIONS = tuple(name for name in NATIVE_OPERATIONS if name != "reduce_scatter")
_REDUCTIONS = ("reduce", "allreduce")
# prefixes of the leaves in the message tree and in the shared-memory tree
_MESSAGE_TREE_PREFIX, _SHARED_MEMORY_TREE_PREFIX = "algorithm=MPIR_", "algorithm=MPIDI_POSIX_"
_VARIABLE_AND_FILE_BY_TREE_PREFIX = {
    _MESSAGE_TREE_PREFIX: ("MPIR_CVAR_COLL_SELECTION_TUNING_JSON_FILE", "collectives.json"),
    _SHARED_MEMORY_TREE_PREFIX: (
        "MPIR_CVAR_CH4_POSIX_COLL_SELECTION_TUNING_JSON_FILE",
        "shared-memory-collectives.json",
    ),
}
_INTRACOMMUNICATOR_CONDITION = "comm_type=intra"
_HIERARCHICAL_ALGORITHM = "smp"  # fails on communicators that MPICH has not split by node
MAX_CONDITION_NUMBER = (1 << 31) - 1  # largest number in a tree's condition


def _read_decision_trees(inst: Installation) -> dict[str, DecisionTree]:
    """Returns the decision trees contained in the library, by the prefix of their leaves. Raises MpiError if the
    message tree is missing."""
    try:
        content = inst.library.read_bytes() if inst.library else b""
    except OSError as error:
        raise MpiError(f"cannot read {inst.library}: {error.strerror}") from error
    found: dict[str, DecisionTree] = {}
    for match in re.finditer(rb'\{"collective=', content):
        text = content[match.start() : content.find(b"\0", match.start())].decode("ascii", "replace")
        try:
            tree = json.loads(text)
        except ValueError:
            continue
        for begin in _VARIABLE_AND_FILE_BY_TREE_PREFIX:
            if begin in text:
                found.setdefault(begin, tree)
    if _MESSAGE_TREE_PREFIX not in found:
        raise MpiError(f"{inst.name}: its library {inst.library} contains no selection of collectives")
    return found


def _algorithm_names_in(tree: DecisionTree, operation: str) -> list[str]:
    """Returns the names of the algorithms in a tree's leaves for an operation, without "smp"."""
    leaves = json.dumps(tree.get(f"collective={operation}", {}))
    found = set(re.findall(rf'"{_MESSAGE_TREE_PREFIX}{operation.capitalize()}_intra_(\w+)": {{}}', leaves))
    return sorted(found - {_HIERARCHICAL_ALGORITHM})


def _list_algorithms(inst: Installation, report: ReportLine) -> Mapping[str, Sequence[NativeAlgorithm]]:
    tree = _read_decision_trees(inst)[_MESSAGE_TREE_PREFIX]
    variables = {one["variable"]: one["description"] for one in list_control_variables(inst, "MPIR_CVAR_", report)}
    found = {}
    for operation in _SUPPORTED_OPERATIONS:
        variable = f"MPIR_CVAR_{operation.upper()}_INTRA_ALGORITHM"
        shared = f"MPIR_CVAR_{operation.upper()}_POSIX_INTRA_ALGORITHM"
        passing = _find_enumerator_value("mpir", variables.get(shared, ""))
        common = {} if passing is None else {shared: passing}
        found[operation] = [
            NativeAlgorithm(name, {variable: value, **common})
            for name in _algorithm_names_in(tree, operation)
            if (value := _find_enumerator_value(name, variables.get(variable, ""))) is not None
        ]
    return found


def _find_enumerator_value(name: str, description: str) -> int | None:
    """Returns the numeric value of an enumerator from a variable's description, which lists the enumerators in order:
    "auto - ..., nb - ...". Returns None if it is not listed. MPICH 4.0 joins the lines of a description without a
    space, so the name may be glued to the last word of the previous line."""
    names = re.findall(r"(\w+)\s+-\s", description)
    for place, one in enumerate(names):
        if one == name:
            return place
    joined = [place for place, one in enumerate(names) if one.endswith(name)]
    return joined[0] if len(joined) == 1 else None


def _make_selection(tables: Sequence[NativeCollectiveTable], inst: Installation | None) -> NativeSelection:
    if inst is None:
        raise MpiError("MPICH's files of collectives contain the selection of its library, which is not here")
    trees = _read_decision_trees(inst)
    for operation in dict.fromkeys(one.operation for one in tables):
        own = sorted((one for one in tables if one.operation == operation), key=lambda one: one.ranks)
        _require_available_algorithms(own, _algorithm_names_in(trees[_MESSAGE_TREE_PREFIX], operation))
        for begin, tree in trees.items():
            branch = tree.get(f"collective={operation}")
            if branch and _INTRACOMMUNICATOR_CONDITION in branch:
                branch[_INTRACOMMUNICATOR_CONDITION] = _branch_by_ranks(
                    operation,
                    own,
                    branch[_INTRACOMMUNICATOR_CONDITION],
                    trees[_MESSAGE_TREE_PREFIX],
                    _make_leaf_maker(begin, operation),
                )
    files = {
        _VARIABLE_AND_FILE_BY_TREE_PREFIX[begin][0]: (
            _VARIABLE_AND_FILE_BY_TREE_PREFIX[begin][1],
            json.dumps(tree, indent=1) + "\n",
        )
        for begin, tree in trees.items()
    }
    return NativeSelection({}, files)


def _require_available_algorithms(tables: Sequence[NativeCollectiveTable], available_names: Sequence[str]) -> None:
    used = {one.algorithm for table in tables for one in table.range} - {MPI_ALGORITHM}
    if unknown := sorted(used - set(available_names)):
        known = ", ".join([*available_names, MPI_ALGORITHM])
        raise UsageError(f"{tables[0].operation}: this MPICH has no algorithm '{unknown[0]}'", f"it has {known}")


def _make_leaf_maker(prefix: str, operation: str) -> Callable[[str, DecisionTree], DecisionTree]:
    """Returns a function that creates the branch for a selected algorithm. In the shared-memory tree, the branch has a
    condition that never holds, so that the call falls through to the message tree."""
    if prefix == _MESSAGE_TREE_PREFIX:
        return lambda name, default: {f"{_MESSAGE_TREE_PREFIX}{operation.capitalize()}_intra_{name}": {}}
    return lambda name, default: {"comm_type=inter": default}


def _branch_by_ranks(
    operation: str,
    tables: Sequence[NativeCollectiveTable],
    default: DecisionTree,
    messages: DecisionTree,
    leaf: Callable[[str, DecisionTree], DecisionTree],
) -> DecisionTree:
    """Returns a branch with the length ranges for each tuned number of ranks, and the default branch for all other
    numbers."""
    has_average = "avg_msg_size" in json.dumps(messages[f"collective={operation}"])
    made: DecisionTree = {}
    for table in tables:
        made.setdefault(f"comm_size<={table.ranks - 1}", default)
        size, factor = ("avg_msg_size", 1) if has_average else ("total_msg_size", table.ranks)
        made[f"comm_size<={table.ranks}"] = _guarded_branch(
            operation, _branch_by_length(table, size, factor, default, leaf), default
        )
    return {**made, "comm_size=any": default}


def _branch_by_length(
    table: NativeCollectiveTable,
    size: str,
    factor: int,
    default: DecisionTree,
    leaf: Callable[[str, DecisionTree], DecisionTree],
) -> DecisionTree:
    def branch(native_range: NativeRangeTable) -> DecisionTree:
        return default if native_range.algorithm == MPI_ALGORITHM else leaf(native_range.algorithm, default)

    if len(table.range) == 1:
        return branch(table.range[0])
    made = {
        f"{size}<={one.to_bytes * factor}": branch(one)
        for one in table.range
        if one.to_bytes is not None and one.to_bytes * factor <= MAX_CONDITION_NUMBER
    }
    return {**made, f"{size}=any": branch(table.range[-1])}


def _guarded_branch(operation: str, selected_tree: DecisionTree, default: DecisionTree) -> DecisionTree:
    """Returns the selected branch under the conditions in which its algorithms may be used, and the default branch
    otherwise."""
    if operation == "alltoall":
        return {"is_sendbuf_inplace=yes": default, "is_sendbuf_inplace=no": selected_tree}
    if operation in _REDUCTIONS:
        return {
            "is_op_built_in=yes": {"count<pow2": default, "count=any": selected_tree},
            "is_op_built_in=no": default,
        }
    return selected_tree


SPEC = NativeFamily(
    name="mpich",
    measurement_mode="native-calls",
    list_algorithms=_list_algorithms,
    make_selection=_make_selection,
    excludes_user_operators=True,
    measurement_variables={"MPIR_CVAR_COLLECTIVE_FALLBACK": "error"},
)
