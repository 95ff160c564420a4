// Reduce: short vectors by a binomial tree; longer ones by Rabenseifner's algorithm: recursive halving, then a gather
// to the root in reverse order.
#include "sim/mpi/collectives/halving.hpp"
#include "sim/mpi/collectives/thresholds.hpp"

namespace nearfield::sim {
namespace {

Task<> reduce_up_tree(Communicator& comm, Buffer data, Address scratch, int root) {
  const int ranks = comm.size(), place = relative_rank(root, comm.rank(), ranks),
            parent = distance_to_parent(place, ranks);
  for (int distance = 1; distance < parent && place + distance < ranks; distance *= 2) {
    co_await comm.receive_and_wait(absolute_rank(root, place + distance, ranks), Buffer(scratch, data.bytes()));
    co_await comm.combine(data.address, scratch, data.bytes());
  }
  if (place > 0) co_await comm.send_and_wait(absolute_rank(root, place - parent, ranks), data);
}

// If the root is idle after the fold, it takes over place 0, and the block of that place, from the rank that has acted
// as its proxy.
Task<> take_over_from_proxy_root(Communicator& comm, NonPowerOfTwoFold folded, Buffer block, int root, int& place) {
  if (comm.rank() == root) {
    place = 0;
    co_await comm.receive_and_wait(folded.rank_at(0), block);
  } else if (place == 0) {
    place = -1;
    co_await comm.send_and_wait(root, block);
  }
}

Task<> reduce_by_halving_and_gather(Communicator& comm, NonPowerOfTwoFold folded, Buffer data, Address scratch,
                                    int root) {
  int place = folded.place_of(comm.rank());
  const int root_place = std::max(folded.place_of(root), 0);
  const auto offsets = element_offsets(data.bytes(), folded.num_places);
  if (place >= 0) {
    const RecursiveHalving halving(place, offsets, true);
    co_await reduce_by_recursive_halving(comm, folded, halving, data.address, scratch);
  }
  const int first = folded.place_of(root) < 0 ? root : folded.rank_at(0);  // the rank at place 0 from now on
  if (folded.place_of(root) < 0)
    co_await take_over_from_proxy_root(comm, folded, Buffer(data.address, offsets[1]), root, place);
  if (place < 0) co_return;
  const RecursiveHalving halving(place, offsets, true);
  for (int level = halving.num_steps() - 1; level >= 0; --level) {
    const int other = halving.partner_place(level), partner = other == 0 ? first : folded.rank_at(other);
    if ((place ^ root_place) & halving.partner_bit(level)) {
      co_await comm.send_and_wait(partner, halving.own_half(level, data.address));
      break;
    }
    co_await comm.receive_and_wait(partner, halving.sent_half(level, data.address));
  }
}

CollectiveBufferSizes buffer_sizes(int rank, int, const CollectiveCall& call) {
  return {call.bytes, rank == call.root ? call.bytes : 0};
}

Task<> reduce_into_buffer(Communicator& comm, CollectiveCall call) {
  const NonPowerOfTwoFold folded(comm.size());
  const Buffer data(call.output, call.bytes);
  const TemporaryBuffer scratch(comm, call.bytes);
  co_await comm.copy(call.output, call.input, call.bytes);
  const bool too_few = call.bytes / element_bytes < static_cast<unsigned>(folded.num_places);
  if (call.bytes <= thresholds::reduce_max_short_bytes || too_few) {
    co_await reduce_up_tree(comm, data, scratch.begin(), call.root);
    co_return;
  }
  co_await fold_idle_ranks(comm, folded, data, scratch.begin());
  co_await reduce_by_halving_and_gather(comm, folded, data, scratch.begin(), call.root);
}

Task<> run_reduce(Communicator& comm, CollectiveCall call) {
  if (call.bytes == 0) co_return;
  if (comm.rank() == call.root) {
    co_await reduce_into_buffer(comm, call);
    co_return;
  }
  const TemporaryBuffer out(comm, call.bytes);
  call.output = out.begin();
  co_await reduce_into_buffer(comm, call);
}

}  // namespace

extern const CollectiveSpec reduce_collective;
const CollectiveSpec reduce_collective{
    "reduce", "the root gets the sum of all vectors", "the vector of one rank", true, buffer_sizes, run_reduce};

}  // namespace nearfield::sim
