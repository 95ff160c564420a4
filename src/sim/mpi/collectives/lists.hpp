// Collectives with counts or layouts per rank, and prefix reductions, as MPICH implements them. They are not
// CollectiveSpecs for the command line, since one size does not describe their parts; the replay of recorded programs
// runs them. A list of parts has a buffer for each rank, and must outlive the operation. Empty parts are not sent. Not
// modeled: MPICH's recursive doubling in short allgathervs, and its synchronous sends in gathervs of many ranks.
#pragma once

#include <span>

#include "sim/mpi/collective.hpp"

namespace nearfield::sim {

using Parts = std::span<const Buffer>;

// The root posts receives from all ranks. `parts`: the root's receive buffers, one per rank.
Task<> gatherv(Communicator& comm, Buffer own_part, Parts parts, int root);
// The root sends to all ranks by nonblocking messages. `parts`: the root's send buffers, one per rank.
Task<> scatterv(Communicator& comm, Parts parts, Buffer own_part, int root);
// Allgathers by a ring.
Task<> allgatherv(Communicator& comm, Buffer own_part, Parts parts);
// Alltoallv and alltoallw: nonblocking messages with at most 32 ranks at a time.
Task<> alltoallw(Communicator& comm, Parts in, Parts out);
// Alltoallv and alltoallw with MPI_IN_PLACE: pairwise, through a temporary buffer.
Task<> alltoallw_in_place(Communicator& comm, Parts parts);
// Neighborhood collectives: nonblocking messages, one part to each destination and one from each source.
// `destinations` and `sources`: ranks in the order of the parts; a negative rank is MPI_PROC_NULL.
Task<> neighbor_alltoallw(Communicator& comm, std::span<const int> destinations, Parts in, std::span<const int> sources,
                          Parts out);
// Computes prefix sums by recursive doubling: those of MPI_Exscan if `exclusive`, otherwise those of MPI_Scan.
Task<> scan(Communicator& comm, CollectiveCall call, bool exclusive);
// Rank i gets the block [offsets[i], offsets[i + 1]) of the sum.
Task<> reduce_scatter(Communicator& comm, Address in, Address out, std::vector<std::uint64_t> offsets);

}  // namespace nearfield::sim
