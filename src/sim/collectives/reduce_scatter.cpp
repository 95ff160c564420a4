// Reduce_scatter: recursive halving; very long vectors pair by pair, each rank collecting its own block.
#include "sim/collectives/halving.hpp"
#include "sim/collectives/thresholds.hpp"

namespace nearfield::sim {
namespace {

// A place has its rank's block, and before it that of the neighbour who stands aside for it.
std::vector<std::uint64_t> offsets_of(Fold folded, std::uint64_t block_bytes) {
  std::vector<std::uint64_t> offsets;
  for (int place = 0; place <= folded.count; ++place)
    offsets.push_back(block_bytes * static_cast<unsigned>(place < folded.aside ? 2 * place : place + folded.aside));
  return offsets;
}

Task<> by_halving(Communicator& all, Call call) {
  const int me = all.rank();
  const Fold folded(all.size());
  const std::uint64_t total = call.bytes * static_cast<unsigned>(all.size());
  const Temporary data(all, total), spare(all, total);
  const Blocks blocks = equal_blocks(data.begin(), call.bytes, all.size());
  co_await all.copy(data.begin(), call.in, total);
  co_await fold(all, folded, Buffer(data.begin(), total), spare.begin());
  if (folded.place(me) >= 0) {
    const Halving halving(folded.place(me), offsets_of(folded, call.bytes), false);
    co_await reduce_by_halving(all, folded, halving, data.begin(), spare.begin());
    co_await all.copy(call.out, blocks.one(me).address, call.bytes);
  }
  if (me >= 2 * folded.aside) co_return;
  if (folded.place(me) < 0)
    co_await all.receive_now(me + 1, Buffer(call.out, call.bytes));
  else
    co_await all.send_now(me - 1, blocks.one(me - 1));
}

Task<> pair_by_pair(Communicator& all, Call call) {
  const int ranks = all.size(), me = all.rank();
  const Blocks in = equal_blocks(call.in, call.bytes, ranks);
  const Temporary spare(all, call.bytes);
  co_await all.copy(call.out, in.one(me).address, call.bytes);
  for (int i = 1; i < ranks; ++i) {
    const int to = (me + i) % ranks, from = (me - i + ranks) % ranks;
    co_await all.sendrecv(to, in.one(to), from, Buffer(spare.begin(), call.bytes));
    co_await all.combine(call.out, spare.begin(), call.bytes);
  }
}

CallSizes sizes(int, int ranks, const Call& call) { return {call.bytes * static_cast<unsigned>(ranks), call.bytes}; }

Task<> run(Communicator& all, Call call) {
  if (call.bytes == 0) co_return;
  if (call.bytes * static_cast<unsigned>(all.size()) < thresholds::reduce_scatter_long_bytes)
    co_await by_halving(all, call);
  else
    co_await pair_by_pair(all, call);
}

}  // namespace

extern const CollectiveSpec reduce_scatter_collective;
const CollectiveSpec reduce_scatter_collective{
    "reduce_scatter", "every rank gets its block of the sum of all vectors", "what one rank gets", false, sizes, run};

}  // namespace nearfield::sim
