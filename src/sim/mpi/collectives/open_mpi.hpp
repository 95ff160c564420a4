// Collectives of Open MPI 4.1 and 5.0: the algorithm that its component "tuned" selects for a number of ranks and a
// size, and the algorithms that MPICH does not have. Collectives other than these four follow MPICH even if the machine
// selects Open MPI.
//
// Source: ompi/mca/coll/tuned/coll_tuned_decision_fixed.c and ompi/mca/coll/base of Open MPI 4.1.4; the selection is
// the same in 5.0, and uses no segments. The simulation differs from it as follows:
//   - more than 511 ranks are treated as 511;
//   - a k-nomial tree replaces the split binary tree, by which 256 ranks or more broadcast 16 to 32 KiB;
//   - the two forms of linear alltoall, which differ only in the order of requests, are one;
//   - in a pairwise alltoall over a power of two of ranks, partners are those of MPICH.
#pragma once

#include "sim/mpi/collective.hpp"

namespace nearfield::sim::open_mpi {

Task<> run_bcast(Communicator& comm, CollectiveCall call);
Task<> run_allgather(Communicator& comm, CollectiveCall call);
Task<> run_allreduce(Communicator& comm, CollectiveCall call);
Task<> run_alltoall(Communicator& comm, CollectiveCall call);

}  // namespace nearfield::sim::open_mpi
