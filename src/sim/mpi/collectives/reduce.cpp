// Reduce: short vectors by a binomial tree; longer ones by Rabenseifner's algorithm: recursive halving, then a gather
// to the root in reverse order.
#include "sim/mpi/collectives/halving.hpp"
#include "sim/mpi/collectives/thresholds.hpp"

namespace nearfield::sim {
namespace {

Task<> up_the_tree(Communicator& all, Buffer data, Address spare, int root) {
  const int ranks = all.size(), place = relative_to(root, all.rank(), ranks), parent = to_parent(place, ranks);
  for (int distance = 1; distance < parent && place + distance < ranks; distance *= 2) {
    co_await all.receive_now(absolute(root, place + distance, ranks), Buffer(spare, data.bytes()));
    co_await all.combine(data.address, spare, data.bytes());
  }
  if (place > 0) co_await all.send_now(absolute(root, place - parent, ranks), data);
}

// An idle root takes over place 0, with its block, from the rank that acted as its proxy.
Task<> take_over_from_proxy_root(Communicator& all, NonPowerOfTwoFold folded, Buffer block, int root, int& place) {
  if (all.rank() == root) {
    place = 0;
    co_await all.receive_now(folded.rank(0), block);
  } else if (place == 0) {
    place = -1;
    co_await all.send_now(root, block);
  }
}

Task<> by_halving(Communicator& all, NonPowerOfTwoFold folded, Buffer data, Address spare, int root) {
  int place = folded.place(all.rank());
  const int root_place = std::max(folded.place(root), 0);
  const auto offsets = element_offsets(data.bytes(), folded.count);
  if (place >= 0) {
    const Halving halving(place, offsets, true);
    co_await reduce_by_halving(all, folded, halving, data.address, spare);
  }
  const int first = folded.place(root) < 0 ? root : folded.rank(0);  // the rank at place 0 from now on
  if (folded.place(root) < 0)
    co_await take_over_from_proxy_root(all, folded, Buffer(data.address, offsets[1]), root, place);
  if (place < 0) co_return;
  const Halving halving(place, offsets, true);
  for (int level = halving.levels() - 1; level >= 0; --level) {
    const int other = halving.partner(level), partner = other == 0 ? first : folded.rank(other);
    if ((place ^ root_place) & halving.bit(level)) {
      co_await all.send_now(partner, halving.own_half(level, data.address));
      break;
    }
    co_await all.receive_now(partner, halving.sent_half(level, data.address));
  }
}

CallSizes sizes(int rank, int, const Call& call) { return {call.bytes, rank == call.root ? call.bytes : 0}; }

Task<> with_buffer(Communicator& all, Call call) {
  const NonPowerOfTwoFold folded(all.size());
  const Buffer data(call.out, call.bytes);
  const Temporary spare(all, call.bytes);
  co_await all.copy(call.out, call.in, call.bytes);
  const bool too_few = call.bytes / element_bytes < static_cast<unsigned>(folded.count);
  if (call.bytes <= thresholds::reduce_short_bytes || too_few) {
    co_await up_the_tree(all, data, spare.begin(), call.root);
    co_return;
  }
  co_await fold(all, folded, data, spare.begin());
  co_await by_halving(all, folded, data, spare.begin(), call.root);
}

Task<> run(Communicator& all, Call call) {
  if (call.bytes == 0) co_return;
  if (all.rank() == call.root) {
    co_await with_buffer(all, call);
    co_return;
  }
  const Temporary out(all, call.bytes);
  call.out = out.begin();
  co_await with_buffer(all, call);
}

}  // namespace

extern const CollectiveSpec reduce_collective;
const CollectiveSpec reduce_collective{
    "reduce", "the root gets the sum of all vectors", "the vector of one rank", true, sizes, run};

}  // namespace nearfield::sim
