"""The command `nearfield`, and `python -m nearfield` for launchers that take a module, as mpi4py.futures does."""

import sys


def main() -> None:
    """Runs the command line. Exits with code 130 and without a traceback on Ctrl-C, also while modules are being
    imported."""
    try:
        from nearfield import cli

        cli.main()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
