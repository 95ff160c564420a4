"""The command `nearfield`, and `python -m nearfield` for launchers that take a module, as mpi4py.futures does."""

import sys


def main() -> None:
    """Runs the command line. Ctrl-C ends it without a traceback from here on, also while modules are imported."""
    try:
        from nearfield import cli

        cli.main()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
