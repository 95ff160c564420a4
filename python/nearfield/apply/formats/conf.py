"""Writes the MPI's own file of defaults: Open MPI's openmpi-mca-params.conf, UCX's ucx.conf. Others have none.

Such a file sets parameters, not environment variables, of which the shared heap needs two. Open MPI 5 can hand them to
the ranks (mca_base_env_list). Open MPI 4 has the same parameter, but `mpirun -x` fails where it is set; UCX has none.
Parameters that were found together with the heap may be worse than the defaults without it; then there is no file."""

from collections.abc import Mapping

from nearfield.apply.formats.format import (
    PRELOAD_VARIABLE,
    ExportFormat,
    format_comment_lines,
    format_preloaded_libraries,
)
from nearfield.base.errors import UsageError

_PREFIX_AND_PLACE_BY_FAMILY = {
    "openmpi": ("OMPI_MCA_", "<prefix>/etc/openmpi-mca-params.conf, or ~/.openmpi/mca-params.conf"),
    "ucx": ("", "<prefix>/etc/ucx/ucx.conf"),
}
_HEAP_COMMENT_LINES = (
    "The shared heap needs LD_PRELOAD, which mca_base_env_list gives to the ranks in place of one that is set in the",
    "environment; mpirun -x LD_PRELOAD=... comes before both. --format env, module and slurm keep the user's.",
)


def _write_mpi_defaults_file(
    family: str, version: str, comments: list[str], environment: Mapping[str, str]
) -> str | None:
    if family not in _PREFIX_AND_PLACE_BY_FAMILY:
        return None
    prefix, place = _PREFIX_AND_PLACE_BY_FAMILY[family]
    lines = format_comment_lines([*comments, f"For {place}."])
    equals = " = " if family == "openmpi" else "="
    variables = {
        name: value for name, value in environment.items() if family == "openmpi" and not name.startswith(prefix)
    }
    if PRELOAD_VARIABLE in environment:
        _require_env_list(family, version)
        variables[PRELOAD_VARIABLE] = format_preloaded_libraries(environment)
        lines += format_comment_lines(_HEAP_COMMENT_LINES)
    if variables:
        lines.append("mca_base_env_list = " + ";".join(f"{name}={value}" for name, value in variables.items()))
    own = {name: value for name, value in environment.items() if name not in variables}
    return "\n".join([*lines, *(f"{name.removeprefix(prefix)}{equals}{value}" for name, value in own.items()), ""])


def _require_env_list(family: str, version: str) -> None:
    from nearfield.rules.knobs import version_numbers

    if family == "openmpi" and version_numbers(version) >= (5,):
        return
    why = "nothing in it sets LD_PRELOAD"
    if family == "openmpi":
        why = "before Open MPI 5, mpirun -x fails where it sets mca_base_env_list"
    raise UsageError(
        f"{family}'s file of defaults cannot load the shared heap, which these rules need: {why}",
        "use --format env, module or slurm",
    )


SPEC = ExportFormat("conf", "the MPI's own file of defaults (Open MPI, UCX)", _write_mpi_defaults_file)
