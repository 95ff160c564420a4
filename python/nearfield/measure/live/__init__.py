"""The live backend: ranks of a real MPI on this machine, or on the nodes of a hostfile."""
