// Reduce_scatter: recursive halving; very long vectors pairwise, each rank collecting its own block.
#include "sim/mpi/collectives/halving.hpp"
#include "sim/mpi/collectives/lists.hpp"
#include "sim/mpi/collectives/thresholds.hpp"

namespace nearfield::sim {
namespace {

using Offsets = std::vector<std::uint64_t>;

Buffer block_of_rank(Address begin, const Offsets& offsets, int rank) {
  const auto at = static_cast<std::size_t>(rank);
  return {begin + offsets[at], offsets[at + 1] - offsets[at]};
}

// Returns the offsets of the places' blocks. The block of a place is that of its rank, preceded by the block of the
// idle neighbour that was folded into the rank.
Offsets offsets_of_places(NonPowerOfTwoFold folded, const Offsets& offsets) {
  Offsets result;
  for (int place = 0; place <= folded.count; ++place)
    result.push_back(
        offsets[static_cast<std::size_t>(place < folded.remainder ? 2 * place : place + folded.remainder)]);
  return result;
}

Task<> reduce_scatter_by_halving(Communicator& all, Address in, Address out, Offsets offsets) {
  const int me = all.rank();
  const NonPowerOfTwoFold folded(all.size());
  const std::uint64_t total = offsets.back();
  const TemporaryBuffer data(all, total), spare(all, total);
  const Buffer mine = block_of_rank(data.begin(), offsets, me);
  co_await all.copy(data.begin(), in, total);
  co_await fold_idle_ranks(all, folded, Buffer(data.begin(), total), spare.begin());
  if (folded.place_of(me) >= 0) {
    const RecursiveHalving halving(folded.place_of(me), offsets_of_places(folded, offsets), false);
    co_await reduce_by_halving(all, folded, halving, data.begin(), spare.begin());
    co_await all.copy(out, mine.address, mine.bytes());
  }
  if (me >= 2 * folded.remainder) co_return;
  if (folded.place_of(me) < 0)
    co_await all.receive_now(me + 1, Buffer(out, mine.bytes()));
  else
    co_await all.send_now(me - 1, block_of_rank(data.begin(), offsets, me - 1));
}

Task<> reduce_scatter_pairwise(Communicator& all, Address in, Address out, Offsets offsets) {
  const int ranks = all.size(), me = all.rank();
  const Buffer mine = block_of_rank(in, offsets, me);
  const TemporaryBuffer spare(all, mine.bytes());
  co_await all.copy(out, mine.address, mine.bytes());
  for (int i = 1; i < ranks; ++i) {
    const int to = (me + i) % ranks, from = (me - i + ranks) % ranks;
    co_await all.sendrecv(to, block_of_rank(in, offsets, to), from, Buffer(spare.begin(), mine.bytes()));
    co_await all.combine(out, spare.begin(), mine.bytes());
  }
}

CollectiveBufferSizes buffer_sizes(int, int ranks, const Call& call) {
  return {call.bytes * static_cast<unsigned>(ranks), call.bytes};
}

Task<> run_reduce_scatter(Communicator& all, Call call) {
  Offsets offsets;
  for (unsigned block = 0; block <= static_cast<unsigned>(all.size()); ++block) offsets.push_back(block * call.bytes);
  co_await reduce_scatter(all, call.in, call.out, std::move(offsets));
}

}  // namespace

Task<> reduce_scatter(Communicator& all, Address in, Address out, std::vector<std::uint64_t> offsets) {
  if (offsets.back() == 0) co_return;
  if (offsets.back() < thresholds::reduce_scatter_long_bytes)
    co_await reduce_scatter_by_halving(all, in, out, std::move(offsets));
  else
    co_await reduce_scatter_pairwise(all, in, out, std::move(offsets));
}

extern const CollectiveSpec reduce_scatter_collective;
const CollectiveSpec reduce_scatter_collective{
    "reduce_scatter",  "every rank gets its block of the sum of all vectors", "what one rank gets", false, buffer_sizes,
    run_reduce_scatter};

}  // namespace nearfield::sim
