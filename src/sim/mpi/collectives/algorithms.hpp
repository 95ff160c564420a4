// Algorithms that the selections of several MPI libraries share. Each is in the file of its collective. If ranks call
// one of them with different arguments of length or root, they deadlock, as in MPI.
#pragma once

#include "sim/mpi/collectives/blocks.hpp"
#include "sim/mpi/collectives/halving.hpp"

namespace nearfield::sim {

// Scatters `blocks` along a binomial tree, then gathers them on all ranks: by a ring, or by recursive doubling, which
// needs a power of two of ranks.
enum class AllgatherStep { ring, doubling };
Task<> bcast_by_scatter(Communicator& all, Blocks blocks, int root, AllgatherStep step);

// Works with any number of ranks.
Task<> allgather_by_bruck(Communicator& all, Call call);

// `data` has the rank's contribution before, and the result afterwards. `spare` is a buffer of the same size.
Task<> allreduce_by_doubling(Communicator& all, NonPowerOfTwoFold folded, Buffer data, Address spare);
Task<> allreduce_by_halving(Communicator& all, NonPowerOfTwoFold folded, Buffer data, Address spare);

Task<> alltoall_by_bruck(Communicator& all, Call call);
Task<> alltoall_nonblocking(Communicator& all, Call call);
Task<> alltoall_pairwise(Communicator& all, Call call);

}  // namespace nearfield::sim
