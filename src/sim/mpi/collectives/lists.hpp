// Collectives with counts or layouts per rank, and prefix reductions, as MPICH implements them. They are not
// CollectiveSpecs for the command line, since one size does not describe their parts; replay runs them. Lists have a
// buffer for each rank, and must outlive the operation. Empty parts are not sent. Left out: MPICH's recursive doubling
// of short allgathervs, synchronous sends in gathervs of many ranks.
#pragma once

#include <span>

#include "sim/mpi/collective.hpp"

namespace nearfield::sim {

using Parts = std::span<const Buffer>;

// The root posts receives from all ranks. `parts` are the root's.
Task<> gatherv(Communicator& all, Buffer mine, Parts parts, int root);
// The root sends to all ranks by nonblocking messages.
Task<> scatterv(Communicator& all, Parts parts, Buffer mine, int root);
// Uses a ring.
Task<> allgatherv(Communicator& all, Buffer mine, Parts parts);
// Alltoallv and alltoallw: nonblocking messages with at most 32 ranks at a time.
Task<> alltoallw(Communicator& all, Parts in, Parts out);
// The same with MPI_IN_PLACE: pairwise, through a temporary buffer.
Task<> alltoallw_in_place(Communicator& all, Parts parts);
// Neighbourhood collectives: nonblocking messages, a part to each destination and from each source. Both are members'
// ranks in the order of the parts; negative ones are MPI_PROC_NULL.
Task<> neighbor_alltoallw(Communicator& all, std::span<const int> destinations, Parts in, std::span<const int> sources,
                          Parts out);
// Uses recursive doubling; `exclusive`: exscan.
Task<> scan(Communicator& all, Call call, bool exclusive);
// Rank i gets the block [offsets[i], offsets[i + 1]) of the sum.
Task<> reduce_scatter(Communicator& all, Address in, Address out, std::vector<std::uint64_t> offsets);

}  // namespace nearfield::sim
