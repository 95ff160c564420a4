"""`python -m nearfield`: for launchers that take a module, as mpi4py.futures does."""

from nearfield.cli import main

if __name__ == "__main__":
    main()
