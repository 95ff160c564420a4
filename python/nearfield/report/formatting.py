"""Formats numbers, and settings of MPI control variables, for use in sentences."""

from __future__ import annotations

from collections.abc import Sequence

from nearfield.base.units import format_bytes


def format_factor(ratio: float) -> str:
    """Formats a ratio, for example '1.75x', '2.1x' or '21x'."""
    return f"{ratio:.0f}x" if ratio >= 9.95 else f"{ratio:.1f}x" if ratio >= 1.995 else f"{ratio:.2f}x"


def format_percent(share: float) -> str:
    """Formats a fraction as a percentage, for example '19 %'; values below 1 % have one decimal."""
    return f"{share * 100:.0f} %" if abs(share) >= 0.0095 or share == 0 else f"{share * 100:.1f} %"


def format_size_range(sizes: Sequence[int]) -> str:
    """Formats the range of ascending sizes in bytes: 'from 4 KiB to 1 MiB' or 'at 4 KiB'."""
    first, last = format_bytes(sizes[0]), format_bytes(sizes[-1])
    return f"at {first}" if first == last else f"from {first} to {last}"


def format_memory_speed(slowdown: float) -> str:
    """Formats a simulated memory slowdown: 'memory as described' or 'memory 7.5x as slow'."""
    return "memory as described" if slowdown == 1 else f"memory {slowdown:g}x as slow"


def variable_setting(family: str, variable: str, value: object) -> str:
    """Returns the environment variable that sets a control variable of an MPI, for example
    'OMPI_MCA_btl_sm_eager_limit=65536'."""
    return f"OMPI_MCA_{variable}={value}" if family == "openmpi" else f"{variable}={value}"


def setting_without_single_copy(family: str, variables: dict[str, int]) -> str | None:
    """Returns the environment variable setting that makes an MPI copy through shared memory instead of by the kernel
    (single copy); None if it is unknown."""
    if family == "openmpi":
        has_btl_sm = any(name.startswith("btl_sm_") for name in variables)
        return "OMPI_MCA_smsc=^cma" if has_btl_sm else "OMPI_MCA_btl_vader_single_copy_mechanism=none"
    return "MPIR_CVAR_CH4_CMA_ENABLE=0" if family == "mpich" else None
