"""Composes the command line and environment that start a program under an MPI, without binding, with ranks in the given
order of hosts."""

import hashlib
import os
import shutil
import subprocess
from functools import lru_cache
from pathlib import Path

from nearfield.base.disk_cache import cache_root
from nearfield.base.errors import MpiError, UsageError
from nearfield.mpi.families import FAMILIES
from nearfield.mpi.installation import Hosts, Installation, LaunchParameters, MpiFamily

LAUNCHER_CHOICES = ("mpirun", "mpiexec", "srun")


def launch_command(
    inst: Installation,
    argv: list[str],
    ranks: int,
    *,
    hosts: Hosts | None = None,
    launcher: str | None = None,
    oversubscribe: bool = False,
) -> tuple[list[str], dict[str, str]]:
    """Returns the command line and the complete environment of a launch.

    `hosts` are pairs (name, number of ranks) in rank order; None means this machine, or the allocation of the batch
    system. `launcher` is one of LAUNCHER_CHOICES; None means the MPI's own launcher, which also works inside a Slurm or
    PBS allocation. `oversubscribe` permits more ranks than CPUs; ranks then yield while they wait. Variables that the
    user has set take precedence, except those without which this MPI does not work (`inst.env`).
    """
    family = FAMILIES[inst.family]
    _check_rank_count(ranks, hosts, oversubscribe)
    path = _find_launcher_path(inst, launcher)
    launch = LaunchParameters(argv, ranks, hosts, oversubscribe, is_in_allocation(), path)
    env = {**family.get_default_variables(launch), **os.environ, **inst.env}
    env |= _prepend_own_library_folder(inst, env.get("LD_LIBRARY_PATH", ""))
    if launcher == "srun":
        return _srun_command(launch, family), env | _srun_environment(hosts)
    return family.make_command(launch), env


def _prepend_own_library_folder(inst: Installation, search_path: str) -> dict[str, str]:
    """Returns LD_LIBRARY_PATH with this MPI's folder prepended, if it contains another MPI's library. LD_LIBRARY_PATH
    takes precedence over an executable's RUNPATH, so ranks would load the wrong libmpi."""
    if not inst.library:
        return {}
    own = inst.library.parent
    stem = inst.library.name.split(".so")[0]
    folders = [Path(p) for p in search_path.split(os.pathsep) if p]
    if all(folder.resolve() == own or not list(folder.glob(f"{stem}.so*")) for folder in folders):
        return {}
    return {"LD_LIBRARY_PATH": os.pathsep.join([str(own), search_path])}


def _check_rank_count(ranks: int, hosts: Hosts | None, oversubscribe: bool) -> None:
    if ranks < 1:
        raise UsageError(f"a launch needs at least 1 rank, not {ranks}")
    if hosts and sum(count for _, count in hosts) != ranks:
        raise UsageError(f"the hosts take {sum(count for _, count in hosts)} ranks, but {ranks} are to start")
    processors = len(os.sched_getaffinity(0))
    if not hosts and not oversubscribe and ranks > processors and not is_in_allocation():
        raise MpiError(
            f"{ranks} ranks on {processors} processors would wait for one another's turn",
            f"use at most {processors} ranks here",
        )


def is_in_allocation() -> bool:
    """Returns whether this process runs in an allocation of a batch system (Slurm, PBS, LSF or SGE)."""
    return any(name in os.environ for name in ("SLURM_JOB_ID", "PBS_NODEFILE", "LSB_JOBID", "PE_HOSTFILE"))


def _find_launcher_path(inst: Installation, launcher: str | None) -> Path:
    """Returns the path of the requested launcher. `mpiexec` is searched in the folder of `mpirun`, with the same
    suffix."""
    if launcher is None or launcher == "mpirun":
        return inst.launcher
    if launcher == "srun":
        found = shutil.which("srun")
        if not found:
            raise MpiError("srun is not on PATH", "leave out the launcher to use the MPI's own")
        return Path(found)
    if launcher != "mpiexec":
        raise UsageError(f"no launcher is called '{launcher}'", f"one of {', '.join(LAUNCHER_CHOICES)}")
    path = inst.launcher.with_name(inst.launcher.name.replace("mpirun", "mpiexec"))
    if not path.exists():
        raise MpiError(f"{inst.name} has no {path}", "use mpirun")
    return path


def _srun_command(launch: LaunchParameters, family: MpiFamily) -> list[str]:
    """Returns the srun command line. It has `--cpu-bind=none`, because the measuring engine binds its own ranks."""
    command = [str(launch.launcher), "-n", str(launch.ranks), "--cpu-bind=none"]
    if "SLURM_MPI_TYPE" not in os.environ:
        command += [f"--mpi={kind}" for kind in family.srun_mpi_types if kind in _srun_mpi_types(launch.launcher)][:1]
    if launch.hosts:
        command += ["--distribution=arbitrary"]
    if launch.oversubscribe:
        command += ["--overcommit"]
    return [*command, *launch.argv]


def _srun_environment(hosts: Hosts | None) -> dict[str, str]:
    """Returns srun's environment for a given order of hosts: with the `arbitrary` distribution, srun places rank i on
    the host in line i of the file SLURM_HOSTFILE."""
    if not hosts:
        return {}
    lines = "".join(f"{host}\n" * count for host, count in hosts)
    file = cache_root() / "hosts" / hashlib.sha256(lines.encode()).hexdigest()[:20]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(lines, encoding="utf-8")
    return {"SLURM_HOSTFILE": str(file)}


@lru_cache
def _srun_mpi_types(srun: Path) -> frozenset[str]:
    """Returns the values of `--mpi=` that this Slurm supports, from `srun --mpi=list`."""
    done = subprocess.run([str(srun), "--mpi=list"], capture_output=True, text=True, errors="replace", timeout=20)
    return frozenset((done.stdout + done.stderr).replace(",", " ").split())
