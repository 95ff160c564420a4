// Reduce: short vectors by a binomial tree; longer ones by Rabenseifner's algorithm: recursive halving, then a gather
// to the root in reverse order.
#include "sim/mpi/collectives/halving.hpp"
#include "sim/mpi/collectives/thresholds.hpp"

namespace nearfield::sim {
namespace {

Task<> reduce_up_tree(Communicator& all, Buffer data, Address spare, int root) {
  const int ranks = all.size(), place = relative_rank(root, all.rank(), ranks),
            parent = distance_to_parent(place, ranks);
  for (int distance = 1; distance < parent && place + distance < ranks; distance *= 2) {
    co_await all.receive_now(absolute_rank(root, place + distance, ranks), Buffer(spare, data.bytes()));
    co_await all.combine(data.address, spare, data.bytes());
  }
  if (place > 0) co_await all.send_now(absolute_rank(root, place - parent, ranks), data);
}

// If the root idles in the fold, it takes over place 0 and the block of that place from the rank that acted as its
// proxy.
Task<> take_over_from_proxy_root(Communicator& all, NonPowerOfTwoFold folded, Buffer block, int root, int& place) {
  if (all.rank() == root) {
    place = 0;
    co_await all.receive_now(folded.rank_at(0), block);
  } else if (place == 0) {
    place = -1;
    co_await all.send_now(root, block);
  }
}

Task<> reduce_by_halving_and_gather(Communicator& all, NonPowerOfTwoFold folded, Buffer data, Address spare, int root) {
  int place = folded.place_of(all.rank());
  const int root_place = std::max(folded.place_of(root), 0);
  const auto offsets = element_offsets(data.bytes(), folded.count);
  if (place >= 0) {
    const RecursiveHalving halving(place, offsets, true);
    co_await reduce_by_halving(all, folded, halving, data.address, spare);
  }
  const int first = folded.place_of(root) < 0 ? root : folded.rank_at(0);  // the rank at place 0 from now on
  if (folded.place_of(root) < 0)
    co_await take_over_from_proxy_root(all, folded, Buffer(data.address, offsets[1]), root, place);
  if (place < 0) co_return;
  const RecursiveHalving halving(place, offsets, true);
  for (int level = halving.step_count() - 1; level >= 0; --level) {
    const int other = halving.partner_place(level), partner = other == 0 ? first : folded.rank_at(other);
    if ((place ^ root_place) & halving.partner_bit(level)) {
      co_await all.send_now(partner, halving.own_half(level, data.address));
      break;
    }
    co_await all.receive_now(partner, halving.sent_half(level, data.address));
  }
}

CollectiveBufferSizes buffer_sizes(int rank, int, const Call& call) {
  return {call.bytes, rank == call.root ? call.bytes : 0};
}

Task<> reduce_into_buffer(Communicator& all, Call call) {
  const NonPowerOfTwoFold folded(all.size());
  const Buffer data(call.out, call.bytes);
  const TemporaryBuffer spare(all, call.bytes);
  co_await all.copy(call.out, call.in, call.bytes);
  const bool too_few = call.bytes / element_bytes < static_cast<unsigned>(folded.count);
  if (call.bytes <= thresholds::reduce_short_bytes || too_few) {
    co_await reduce_up_tree(all, data, spare.begin(), call.root);
    co_return;
  }
  co_await fold_idle_ranks(all, folded, data, spare.begin());
  co_await reduce_by_halving_and_gather(all, folded, data, spare.begin(), call.root);
}

Task<> run_reduce(Communicator& all, Call call) {
  if (call.bytes == 0) co_return;
  if (all.rank() == call.root) {
    co_await reduce_into_buffer(all, call);
    co_return;
  }
  const TemporaryBuffer out(all, call.bytes);
  call.out = out.begin();
  co_await reduce_into_buffer(all, call);
}

}  // namespace

extern const CollectiveSpec reduce_collective;
const CollectiveSpec reduce_collective{
    "reduce", "the root gets the sum of all vectors", "the vector of one rank", true, buffer_sizes, run_reduce};

}  // namespace nearfield::sim
