// Algorithms that several MPI libraries use. Each is defined in the file of its collective. All ranks must call an
// algorithm with the same length and root; otherwise they deadlock, as in MPI.
#pragma once

#include "sim/mpi/collectives/blocks.hpp"
#include "sim/mpi/collectives/halving.hpp"

namespace nearfield::sim {

// Scatters `blocks` along a binomial tree, then gathers them on all ranks: by a ring or by recursive doubling; the
// latter requires that the number of ranks is a power of two.
enum class AllgatherStep { ring, recursive_doubling };
Task<> bcast_by_scatter(Communicator& comm, Blocks blocks, int root, AllgatherStep step);

// Works with any number of ranks.
Task<> allgather_by_bruck(Communicator& comm, CollectiveCall call);

// `data` holds the rank's contribution before the call and the result after it. `scratch` is a buffer of the same size.
Task<> allreduce_by_recursive_doubling(Communicator& comm, NonPowerOfTwoFold folded, Buffer data, Address scratch);
Task<> allreduce_by_recursive_halving(Communicator& comm, NonPowerOfTwoFold folded, Buffer data, Address scratch);

Task<> alltoall_by_bruck(Communicator& comm, CollectiveCall call);
Task<> alltoall_nonblocking(Communicator& comm, CollectiveCall call);
Task<> alltoall_pairwise(Communicator& comm, CollectiveCall call);

}  // namespace nearfield::sim
