"""The live backend: runs ranks under a real MPI on this host, or on the nodes of a hostfile."""
