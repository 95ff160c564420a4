// Collectives as Open MPI 4.1 and 5.0 do them: which algorithm its component "tuned" selects by the number of ranks and
// the size, and the algorithms that MPICH does not have. Others than these four follow MPICH here, too.
//
// Source: ompi/mca/coll/tuned/coll_tuned_decision_fixed.c and ompi/mca/coll/base of Open MPI 4.1.4; the selection is
// the same in 5.0, and uses no segments. These differ from it:
//   - more than 511 ranks are treated as 511;
//   - a k-nomial tree replaces the split binary tree, by which 256 ranks or more broadcast 16 to 32 KiB;
//   - the two forms of linear alltoall, which differ only in the order of requests, are one;
//   - in a pairwise alltoall over a power of two of ranks, partners are those of MPICH.
#pragma once

#include "sim/mpi/collective.hpp"

namespace nearfield::sim::open_mpi {

Task<> run_bcast(Communicator& all, Call call);
Task<> run_allgather(Communicator& all, Call call);
Task<> run_allreduce(Communicator& all, Call call);
Task<> run_alltoall(Communicator& all, Call call);

}  // namespace nearfield::sim::open_mpi
