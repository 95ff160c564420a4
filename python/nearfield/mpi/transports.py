"""Finds the transport within a node: two ranks exchange a short and a long message under the MPI's verbose output, and
the engine counts single copies. The configuration alone is not trusted.

The engine's `--transport-probe` prints on rank 0 `single_copies N LIBRARY`: the number of calls of process_vm_readv and
process_vm_writev during the long exchange, and the calling library ("-" for no calls).
"""

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from nearfield.base import disk_cache, job_key, shared_heap
from nearfield.base.errors import NearfieldError
from nearfield.base.files import read_small_file
from nearfield.mpi.build import build_target
from nearfield.mpi.families import FAMILIES
from nearfield.mpi.installation import Installation
from nearfield.mpi.process import run

_PROBE_TIMEOUT_S = 30
_MPI_VARIABLE_PREFIXES = ("OMPI_MCA_", "PRTE_MCA_", "MPIR_CVAR_", "I_MPI_", "UCX_", "FI_")


def transport_or_reason(inst: Installation) -> tuple[str | None, str]:
    """Returns (transport, ""), for example "ob1 / sm, single copy by CMA"; or (None, the reason why it is unknown).
    Builds the engine if necessary. The result is cached on disk for this host and the MPI variables in the
    environment."""
    try:
        engine = build_target(inst)
        question = [str(engine), *_environment_identity()]
        if known := disk_cache.get_value("transport", question):
            return str(known), ""
        carrier, reason = _detect_transport(inst, engine)
        if carrier:
            disk_cache.store_value("transport", question, carrier, [engine])
        return carrier, reason
    except NearfieldError as error:
        return None, error.message


def _environment_identity() -> list[str]:
    """Returns everything besides the executable on which the transport may depend: the host, the kernel, the user, the
    container and the MPI variables."""
    settings = sorted(f"{k}={v}" for k, v in os.environ.items() if k.startswith(_MPI_VARIABLE_PREFIXES))
    return [os.uname().nodename, os.uname().release, str(os.geteuid()), *_container_identity(), *settings]


def _container_identity() -> list[str]:
    """Returns values that differ between containers: the user namespace and the seccomp status."""
    status = (read_small_file("/proc/self/status") or "").splitlines()
    filters = [line for line in status if line.startswith("Seccomp")]
    with suppress(OSError):
        return [str(Path("/proc/self/ns/user").readlink()), *filters]
    return filters


def _detect_transport(inst: Installation, engine: Path) -> tuple[str | None, str]:
    """Returns (transport, "") or (None, reason). If the MPI fails, or copies nothing, because the kernel forbids single
    copies, tries again with the shared heap preloaded."""
    carrier, reason = _probe_transport(inst, engine, {})
    if carrier:
        return carrier, reason
    heap = shared_heap.heap_preload_variables(os.environ)
    with_heap, _ = _probe_transport(inst, engine, heap | job_key.make_key_variable(heap))
    return (f"{with_heap}, which only the shared heap allows", "") if with_heap else (carrier, reason)


def _probe_transport(inst: Installation, engine: Path, environment: Mapping[str, str]) -> tuple[str | None, str]:
    family = FAMILIES[inst.family]
    lines: list[str] = []
    done = run(
        inst,
        [str(engine), "--transport-probe"],
        2,
        oversubscribe=len(os.sched_getaffinity(0)) < 2,
        timeout_s=_PROBE_TIMEOUT_S,
        env={**family.verbose_variables, **environment},
        on_line=lambda stream, line: lines.append(line),
    )
    if done.timed_out:
        return None, f"2 ranks did not finish within {_PROBE_TIMEOUT_S} s"
    if done.exit_code:
        said = [*done.output_lines, done.describe_silence][0]
        return None, f"2 ranks failed with exit code {done.exit_code}: {said}"
    text = "\n".join(lines)
    carrier = family.parse_transport(text)
    if carrier is None:
        return None, f"{inst.name} does not report it in a format that nearfield can parse"
    return carrier + format_single_copies(text), ""


def format_single_copies(text: str) -> str:
    """Returns text about the single copies that the engine counted; empty if it did not count."""
    found = re.search(r"^single_copies (\d+)", text, re.MULTILINE)
    if not found:
        return ""
    return ", single copy by CMA" if int(found[1]) else ", no single copy of 1 MiB"
