// Scatter: a binomial tree, in which each rank forwards the blocks of its subtree.
#include "sim/mpi/collectives/blocks.hpp"

namespace nearfield::sim {
namespace {

// The blocks of a subtree, in the order of places.
struct Carried {
  Address begin;
  int first;  // place of the first block
};

Task<> to_children(Communicator& all, Call call, Carried carried) {
  const int ranks = all.size(), place = relative_to(call.root, all.rank(), ranks);
  for (int distance = to_parent(place, ranks) / 2; distance > 0; distance /= 2) {
    const int child = place + distance;
    if (child >= ranks) continue;
    const Blocks blocks = equal_blocks(carried.begin, call.bytes, ranks);
    const Buffer part = blocks.range(child - carried.first, subtree_end(child, ranks) - carried.first);
    co_await all.send_now(absolute(call.root, child, ranks), part);
  }
}

// Blocks are sent in the order of places, which is that of ranks if the root is rank 0.
Task<> from_root(Communicator& all, Call call) {
  const int ranks = all.size();
  const Blocks in = equal_blocks(call.in, call.bytes, ranks);
  if (call.root == 0) {
    co_await to_children(all, call, {call.in, 0});
  } else {
    const Temporary turned(all, in.total_bytes);
    const Buffer upper = in.range(call.root, ranks), lower = in.range(0, call.root);
    co_await all.copy(turned.begin(), upper.address, upper.bytes());
    co_await all.copy(turned.begin() + upper.bytes(), lower.address, lower.bytes());
    co_await to_children(all, call, {turned.begin(), 0});
  }
  co_await all.copy(call.out, in.one(call.root).address, call.bytes);
}

CallSizes sizes(int rank, int ranks, const Call& call) {
  return {rank == call.root ? call.bytes * static_cast<unsigned>(ranks) : 0, call.bytes};
}

Task<> run(Communicator& all, Call call) {
  const int ranks = all.size(), place = relative_to(call.root, all.rank(), ranks);
  if (call.bytes == 0) co_return;
  if (place == 0) {
    co_await from_root(all, call);
    co_return;
  }
  const int parent = absolute(call.root, place - to_parent(place, ranks), ranks);
  const int below = subtree_end(place, ranks) - place;
  if (below == 1) {
    co_await all.receive_now(parent, Buffer(call.out, call.bytes));
    co_return;
  }
  const std::uint64_t bytes = call.bytes * static_cast<unsigned>(below);
  const Temporary carried(all, bytes);
  co_await all.receive_now(parent, Buffer(carried.begin(), bytes));
  co_await to_children(all, call, {carried.begin(), place});
  co_await all.copy(call.out, carried.begin(), call.bytes);
}

}  // namespace

extern const CollectiveSpec scatter_collective;
const CollectiveSpec scatter_collective{
    "scatter", "every rank gets its block of what the root has", "what one rank gets", true, sizes, run};

}  // namespace nearfield::sim
