// Collectives as Open MPI 4.1 and 5.0 do them: which algorithm its component "tuned" selects by the number of ranks and
// the size, and the algorithms that MPICH does not have. Others than these four follow MPICH here, too.
//
// Source: ompi/mca/coll/tuned/coll_tuned_decision_fixed.c and ompi/mca/coll/base of Open MPI 4.1.4; the selection is
// the same in 5.0. Segments are left out, since that selection uses none.
#pragma once

#include "sim/mpi/collective.hpp"

namespace nearfield::sim::open_mpi {

Task<> run_bcast(Communicator& all, Call call);
Task<> run_allgather(Communicator& all, Call call);
Task<> run_allreduce(Communicator& all, Call call);
Task<> run_alltoall(Communicator& all, Call call);

}  // namespace nearfield::sim::open_mpi
