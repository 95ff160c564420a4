// Bcast: short messages along a binomial tree; longer messages are scattered along that tree, then allgathered (van de
// Geijn): by a ring if they are very long or the number of ranks is no power of two, otherwise by recursive doubling.
#include "sim/mpi/collectives/algorithms.hpp"
#include "sim/mpi/collectives/open_mpi.hpp"
#include "sim/mpi/collectives/thresholds.hpp"

namespace nearfield::sim {
namespace {

Task<> bcast_down_tree(Communicator& comm, Buffer data, int root) {
  const int ranks = comm.size(), place = relative_rank(root, comm.rank(), ranks);
  int distance = distance_to_parent(place, ranks);
  if (place > 0) co_await comm.receive_and_wait(absolute_rank(root, place - distance, ranks), data);
  while ((distance /= 2) > 0)
    if (place + distance < ranks) co_await comm.send_and_wait(absolute_rank(root, place + distance, ranks), data);
}

// Scatters the blocks along the tree: every place receives the blocks of its subtree from its parent.
Task<> scatter_down_tree(Communicator& comm, Blocks blocks, int root) {
  const int ranks = comm.size(), place = relative_rank(root, comm.rank(), ranks);
  int distance = distance_to_parent(place, ranks);
  const Buffer own_blocks = blocks.block_range(place, subtree_end(place, ranks));
  if (place > 0 && own_blocks.bytes() > 0)
    co_await comm.receive_and_wait(absolute_rank(root, place - distance, ranks), own_blocks);
  while ((distance /= 2) > 0) {
    const int child = place + distance;
    if (child >= ranks) continue;
    const Buffer part = blocks.block_range(child, subtree_end(child, ranks));
    if (part.bytes() > 0) co_await comm.send_and_wait(absolute_rank(root, child, ranks), part);
  }
}

}  // namespace

Task<> bcast_by_scatter(Communicator& comm, Blocks blocks, int root, AllgatherStep step) {
  co_await scatter_down_tree(comm, blocks, root);
  if (step == AllgatherStep::recursive_doubling)
    co_await allgather_by_recursive_doubling(comm, blocks, root);
  else
    co_await allgather_by_ring(comm, blocks, root);
}

namespace {

CollectiveBufferSizes buffer_sizes(int rank, int, const CollectiveCall& call) {
  return rank == call.root ? CollectiveBufferSizes{call.bytes, 0} : CollectiveBufferSizes{0, call.bytes};
}

Task<> run_bcast(Communicator& comm, CollectiveCall call) {
  const int ranks = comm.size();
  const Address begin = comm.rank() == call.root ? call.input : call.output;
  if (call.bytes == 0) co_return;
  if (comm.algorithms() == CollectiveAlgorithms::openmpi) {
    co_await open_mpi::run_bcast(comm, call);
    co_return;
  }
  if (call.bytes < thresholds::bcast_min_long_bytes || ranks < thresholds::bcast_min_long_ranks) {
    co_await bcast_down_tree(comm, Buffer(begin, call.bytes), call.root);
    co_return;
  }
  const auto count = static_cast<std::uint64_t>(ranks);
  const Blocks blocks{begin, (call.bytes + count - 1) / count, call.bytes};
  const bool uses_doubling = call.bytes < thresholds::bcast_min_very_long_bytes && is_power_of_two(ranks);
  co_await bcast_by_scatter(comm, blocks, call.root,
                            uses_doubling ? AllgatherStep::recursive_doubling : AllgatherStep::ring);
}

}  // namespace

const CollectiveSpec bcast_collective{
    "bcast", "every rank gets what the root has", "the whole message", true, buffer_sizes, run_bcast};

}  // namespace nearfield::sim
