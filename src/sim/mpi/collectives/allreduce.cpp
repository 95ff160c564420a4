// Allreduce: short vectors by recursive doubling, in which every rank combines the whole vector in every step; longer
// ones by Rabenseifner's algorithm: recursive halving, then an allgather in reverse order.
#include "sim/mpi/collectives/algorithms.hpp"
#include "sim/mpi/collectives/open_mpi.hpp"
#include "sim/mpi/collectives/thresholds.hpp"

namespace nearfield::sim {

Task<> allreduce_by_doubling(Communicator& all, NonPowerOfTwoFold folded, Buffer data, Address spare) {
  const int place = folded.place_of(all.rank());
  for (int distance = 1; distance < folded.count; distance *= 2) {
    const int partner = folded.rank_at(place ^ distance);
    co_await all.sendrecv(partner, data, partner, Buffer(spare, data.bytes()));
    co_await all.combine(data.address, spare, data.bytes());
  }
}

Task<> allreduce_by_halving(Communicator& all, NonPowerOfTwoFold folded, Buffer data, Address spare) {
  const RecursiveHalving halving(folded.place_of(all.rank()), element_offsets(data.bytes(), folded.count), true);
  co_await reduce_by_halving(all, folded, halving, data.address, spare);
  for (int level = halving.step_count() - 1; level >= 0; --level) {
    const int partner = folded.rank_at(halving.partner_place(level));
    co_await all.sendrecv(partner, halving.own_half(level, data.address), partner,
                          halving.sent_half(level, data.address));
  }
}

namespace {

CollectiveBufferSizes buffer_sizes(int, int, const Call& call) { return {call.bytes, call.bytes}; }

Task<> run_allreduce(Communicator& all, Call call) {
  if (call.bytes == 0) co_return;
  if (all.algorithms() == CollectiveAlgorithms::openmpi) {
    co_await open_mpi::run_allreduce(all, call);
    co_return;
  }
  const NonPowerOfTwoFold folded(all.size());
  const Buffer data(call.out, call.bytes);
  const TemporaryBuffer spare(all, call.bytes);
  co_await all.copy(call.out, call.in, call.bytes);
  co_await fold_idle_ranks(all, folded, data, spare.begin());
  if (folded.place_of(all.rank()) >= 0) {
    const bool too_few = call.bytes / element_bytes < static_cast<unsigned>(folded.count);
    if (call.bytes <= thresholds::allreduce_short_bytes || too_few)
      co_await allreduce_by_doubling(all, folded, data, spare.begin());
    else
      co_await allreduce_by_halving(all, folded, data, spare.begin());
  }
  co_await unfold_idle_ranks(all, folded, data);
}

}  // namespace

const CollectiveSpec allreduce_collective{
    "allreduce",  "every rank gets the sum of all vectors", "the vector of one rank", false, buffer_sizes,
    run_allreduce};

}  // namespace nearfield::sim
