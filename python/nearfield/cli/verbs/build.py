"""`nearfield build`: builds everything at once that is otherwise built on first use."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.markup import escape

from nearfield import mpi
from nearfield.base.errors import MpiError, NearfieldError, UsageError
from nearfield.base.progress import ReportLine
from nearfield.cli.options import AsJson, Mpi, require_single_option
from nearfield.mpi import Installation
from nearfield.ui.terminal import Terminal, err

State = Literal["built", "there already", "not possible", "failed"]
OF_EACH_MPI = {
    mpi.ENGINE_TARGET: "measuring engine",
    mpi.HALO_TARGET: "halo library",
    mpi.PROFILING_LAYER_TARGET: "profiling layer of observe",
    mpi.FORECAST_TARGET: "profiling layer of forecast",
    mpi.COLLECTIVES_TARGET: "collectives of a node",
    mpi.COLLECTIVES_PROGRAM_TARGET: "program that measures collectives",
}
PER_PAIR = {
    "component": (mpi.COMPONENT_TARGET, "component for settings per pair of ranks"),
    "shim": (mpi.SHIM_TARGET, "shim for settings per pair of ranks"),
}


@dataclass(frozen=True)
class BuildProduct:
    """Something to build on this machine. `make` builds it and returns its path, or raises NearfieldError."""

    name: str
    mpi: str | None  # name of the MPI for which it is built; None: independent of an MPI
    is_built: Callable[[], bool]
    make: Callable[[ReportLine], Path]


@dataclass(frozen=True)
class BuildResult:
    """The result of building a product."""

    product: str
    mpi: str | None
    state: State
    path: str | None = None  # path of the product, if it exists
    reason: str | None = None  # why the product does not exist

    def __str__(self) -> str:
        whose = f" for {self.mpi}" if self.mpi else ""
        return f"{self.product}{whose}: {self.state}" + (f" here, because {self.reason}" if self.reason else "")


def command(
    name: Mpi = None,
    all_mpis: Annotated[bool, typer.Option("--all-mpis", help="For every MPI that is found.")] = False,
    as_json: AsJson = False,
) -> None:
    """Build everything that is otherwise built when it is first needed, for example on a login node.

    These are, for an MPI: the measuring engine, the halo library, the layers with which `nearfield observe` records
    messages and `nearfield forecast` counts calls, the collectives of a node and the program that measures them, the
    component for settings per pair of ranks, and the checks of `nearfield rewrite`; independently of an MPI, the hooks
    of `nearfield cc` and the tool for Valgrind. One line is printed for each.

    The exit code is 3 if a build failed. A product that cannot be built here because
    something optional is missing, such as Valgrind, is reported and is no failure.

    Examples:

      nearfield build

      nearfield build --all-mpis --json
    """
    require_single_option(mpi=name, all_mpis=all_mpis)
    installations = list(mpi.find_usable_mpis()) if all_mpis else [mpi.choose_mpi(name)]
    if not installations:
        mpi.choose_mpi(None)  # raises an error that names what to install
    results = []
    for product in products_to_build(installations):
        results.append(result := _build_product(product))
        if not as_json:
            Terminal().print(escape(str(result)))
    if as_json:
        print(json.dumps([asdict(result) for result in results], indent=1))
    if any(result.state == "failed" for result in results):
        raise typer.Exit(MpiError.exit_code)


def products_to_build(installations: list[Installation]) -> Iterator[BuildProduct]:
    """Yields the products to build. The product for settings per pair of ranks comes after the measuring engine, which
    determines the MPI's transport."""
    from nearfield.observe import hooks, valgrind

    for inst in installations:
        for target, name in OF_EACH_MPI.items():
            yield _build_target(inst, target, name)
        if per_pair := _per_pair(inst):
            yield _build_target(inst, *per_pair)
        yield _rewrite_checks(inst)
    yield BuildProduct(
        "hooks of observe", None, lambda: hooks.hook_library().exists(), lambda say: hooks.hook_library()
    )
    yield BuildProduct(
        "tool for valgrind",
        None,
        lambda: valgrind.is_tool_built(valgrind.find_valgrind()),
        lambda say: valgrind.tool_folder(valgrind.find_valgrind(), say),
    )


def _build_target(inst: Installation, target: str, name: str) -> BuildProduct:
    return BuildProduct(
        name, inst.name, lambda: mpi.is_built(inst, target), lambda say: mpi.build_target(inst, target, progress=say)
    )


def _rewrite_checks(inst: Installation) -> BuildProduct:
    from nearfield.rewrite.check import verify  # imported late, because it is slow

    def make(say: ReportLine) -> Path:
        verify.layer_linker_inputs(inst)
        return verify.layer_folder(inst)

    return BuildProduct("checks of rewrite", inst.name, lambda: verify.layer_folder(inst).exists(), make)


def _per_pair(inst: Installation) -> tuple[str, str] | None:
    """Returns the build target that implements settings per pair of ranks in this MPI, and its description; None if
    there is none."""
    from nearfield.rules.knobs import find_knobs

    if not mpi.is_built(inst):
        return None
    try:
        knobs = find_knobs(inst.family, inst.version, mpi.transport_or_reason(inst)[0])
    except NearfieldError:  # nearfield has no knobs for this MPI and transport
        return None
    return PER_PAIR.get(knobs.per_pair or "")


def _build_product(product: BuildProduct) -> BuildResult:
    """Builds a product unless it exists. Returns the result."""
    try:
        state: State = "there already" if product.is_built() else "built"
        path = product.make(lambda text: err.print(escape(text)))
        return BuildResult(product.name, product.mpi, state, str(path))
    except UsageError as error:  # a dependency is not installed
        return BuildResult(product.name, product.mpi, "not possible", reason=str(error))
    except NearfieldError as error:
        return BuildResult(product.name, product.mpi, "failed", reason=str(error))
