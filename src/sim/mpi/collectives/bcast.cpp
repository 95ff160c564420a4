// Bcast: a binomial tree; longer messages are scattered along that tree, then allgathered (van de Geijn), by recursive
// doubling or, if very long or unless the number of ranks is a power of two, by a ring.
#include "sim/mpi/collectives/blocks.hpp"
#include "sim/mpi/collectives/thresholds.hpp"

namespace nearfield::sim {
namespace {

Task<> down_the_tree(Communicator& all, Buffer data, int root) {
  const int ranks = all.size(), place = relative_to(root, all.rank(), ranks);
  int distance = to_parent(place, ranks);
  if (place > 0) co_await all.receive_now(absolute(root, place - distance, ranks), data);
  while ((distance /= 2) > 0)
    if (place + distance < ranks) co_await all.send_now(absolute(root, place + distance, ranks), data);
}

// Every place receives the blocks of its subtree.
Task<> scatter_down_the_tree(Communicator& all, Blocks blocks, int root) {
  const int ranks = all.size(), place = relative_to(root, all.rank(), ranks);
  int distance = to_parent(place, ranks);
  const Buffer mine = blocks.range(place, subtree_end(place, ranks));
  if (place > 0 && mine.bytes() > 0) co_await all.receive_now(absolute(root, place - distance, ranks), mine);
  while ((distance /= 2) > 0) {
    const int child = place + distance;
    if (child >= ranks) continue;
    const Buffer part = blocks.range(child, subtree_end(child, ranks));
    if (part.bytes() > 0) co_await all.send_now(absolute(root, child, ranks), part);
  }
}

CallSizes sizes(int rank, int, const Call& call) {
  return rank == call.root ? CallSizes{call.bytes, 0} : CallSizes{0, call.bytes};
}

Task<> run(Communicator& all, Call call) {
  const int ranks = all.size();
  const Address begin = all.rank() == call.root ? call.in : call.out;
  if (call.bytes == 0) co_return;
  if (call.bytes < thresholds::bcast_long_bytes || ranks < thresholds::bcast_long_ranks) {
    co_await down_the_tree(all, Buffer(begin, call.bytes), call.root);
    co_return;
  }
  const auto count = static_cast<std::uint64_t>(ranks);
  const Blocks blocks{begin, (call.bytes + count - 1) / count, call.bytes};
  co_await scatter_down_the_tree(all, blocks, call.root);
  if (call.bytes < thresholds::bcast_very_long_bytes && power_of_two(ranks))
    co_await allgather_by_doubling(all, blocks, call.root);
  else
    co_await allgather_by_ring(all, blocks, call.root);
}

}  // namespace

const CollectiveSpec bcast_collective{"bcast", "every rank gets what the root has", "the whole message", true, sizes,
                                      run};

}  // namespace nearfield::sim
