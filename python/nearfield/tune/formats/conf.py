"""The MPI's own file of defaults: Open MPI's openmpi-mca-params.conf, UCX's ucx.conf. The others have none."""

from collections.abc import Mapping

from nearfield.tune.formats.format import Format

_PLACES = {
    "openmpi": ("OMPI_MCA_", "<prefix>/etc/openmpi-mca-params.conf, or ~/.openmpi/mca-params.conf"),
    "ucx": ("", "<prefix>/etc/ucx/ucx.conf"),
}


def _write(family: str, comments: list[str], environment: Mapping[str, str]) -> str | None:
    if family not in _PLACES:
        return None
    prefix, place = _PLACES[family]
    lines = [f"# {line}" for line in [*comments, f"For {place}."]]
    equals = " = " if family == "openmpi" else "="
    return "\n".join([*lines, *(f"{n.removeprefix(prefix)}{equals}{v}" for n, v in environment.items()), ""])


SPEC = Format("conf", "the MPI's own file of defaults (Open MPI, UCX)", _write)
