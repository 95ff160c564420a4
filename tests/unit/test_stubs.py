"""Do type checkers see the extension module as it is?"""

from __future__ import annotations

import ast
from pathlib import Path
from types import ModuleType

import pytest

from nearfield import _native

FOLDER = Path(_native.__file__ or "").parent / "_native"
SUBMODULES = {name: module for name, module in vars(_native).items() if isinstance(module, ModuleType)}


def _defined_names(stub: Path) -> set[str]:
    nodes = list(ast.walk(ast.parse(stub.read_text())))
    targets = [node.target for node in nodes if isinstance(node, ast.AnnAssign)]
    targets += [target for node in nodes if isinstance(node, ast.Assign) for target in node.targets]
    names = {target.id for target in targets if isinstance(target, ast.Name)}
    names |= {node.name for node in nodes if isinstance(node, (ast.ClassDef, ast.FunctionDef))}
    return names | {node.asname or node.name for node in nodes if isinstance(node, ast.alias)}


@pytest.mark.parametrize("name", ["__init__", *SUBMODULES])
def test_stubs_declare_all_names(name: str) -> None:
    """Does the build install a stub for each module, with every public name of the module and of its classes?"""
    module = SUBMODULES.get(name, _native)
    classes = [value for value in vars(module).values() if isinstance(value, type)]
    names = {key for one in (module, *classes) for key in vars(one) if not key.startswith("_")}
    assert names <= _defined_names(FOLDER / f"{name}.pyi")


def test_stubs_are_marked_as_typed() -> None:
    """Is the marker there without which type checkers ignore the stubs of an installed package?"""
    assert (FOLDER / "py.typed").is_file()
