"""Numbers inside sentences, and how a control variable is set."""

from __future__ import annotations

from collections.abc import Sequence

from nearfield.units import format_bytes


def times(ratio: float) -> str:
    """'2.1x'."""
    return f"{ratio:.0f}x" if ratio >= 9.95 else f"{ratio:.1f}x" if ratio >= 1.095 else f"{ratio:.2f}x"


def percent(share: float) -> str:
    """'19 %'; one decimal below 1 %."""
    return f"{share * 100:.0f} %" if abs(share) >= 0.0095 or share == 0 else f"{share * 100:.1f} %"


def span(sizes: Sequence[int]) -> str:
    """'from 4 KiB to 1 MiB', or 'at 4 KiB'. Ascending sizes in bytes, at least one."""
    first, last = format_bytes(sizes[0]), format_bytes(sizes[-1])
    return f"at {first}" if first == last else f"from {first} to {last}"


def memory_speed(slowdown: str) -> str:
    """Of a simulated machine: 'memory as described', or 'memory 7.5x as slow'."""
    return "memory as described" if float(slowdown) == 1 else f"memory {slowdown}x as slow"


def setting(family: str, variable: str, value: object) -> str:
    """The environment variable that sets a control variable: 'OMPI_MCA_btl_sm_eager_limit=65536'."""
    return f"OMPI_MCA_{variable}={value}" if family == "openmpi" else f"{variable}={value}"


def no_single_copy(family: str, variables: dict[str, int]) -> str | None:
    """The setting that makes an MPI copy through shared memory instead; None where it is not known to us."""
    if family == "openmpi":
        new = any(name.startswith("btl_sm_") for name in variables)
        return "OMPI_MCA_smsc=^cma" if new else "OMPI_MCA_btl_vader_single_copy_mechanism=none"
    return "MPIR_CVAR_CH4_CMA_ENABLE=0" if family == "mpich" else None
