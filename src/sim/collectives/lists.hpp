// Collectives whose parts differ in length or layout from rank to rank, and prefix reductions, as MPICH does them. They
// have no list of their own for the command line, since one number does not describe their parts; replay runs them.
// Lists have a buffer for each rank, and must live until the operation is over. Empty parts are not sent. Left out:
// MPICH's recursive doubling of short allgathervs, synchronous sends in gathervs of many ranks.
#pragma once

#include <span>

#include "sim/collective.hpp"

namespace nearfield::sim {

using Parts = std::span<const Buffer>;

// The root receives from all at once. `parts`: of the root.
Task<> gatherv(Communicator& all, Buffer mine, Parts parts, int root);
// The root sends to all at once.
Task<> scatterv(Communicator& all, Parts parts, Buffer mine, int root);
// In a ring.
Task<> allgatherv(Communicator& all, Buffer mine, Parts parts);
// Alltoallv and alltoallw: all at once, but no more than 32 ranks at a time.
Task<> alltoallw(Communicator& all, Parts in, Parts out);
// The same with MPI_IN_PLACE: pair by pair, through a temporary buffer.
Task<> alltoallw_in_place(Communicator& all, Parts parts);
// Neighbourhood collectives: a part to each destination and one from each source, all at once. Both are members' ranks
// in the order of the parts; negative ones are nobody.
Task<> neighbor_alltoallw(Communicator& all, std::span<const int> destinations, Parts in, std::span<const int> sources,
                          Parts out);
// By recursive doubling; `exclusive`: exscan.
Task<> scan(Communicator& all, Call call, bool exclusive);
// Rank i gets the block from offsets[i] to before offsets[i + 1] of the sum.
Task<> reduce_scatter(Communicator& all, Address in, Address out, std::vector<std::uint64_t> offsets);

}  // namespace nearfield::sim
