// Allreduce: short vectors by recursive doubling, in which every rank combines the whole vector in every step; longer
// ones by Rabenseifner's algorithm: recursive halving, then an allgather in reverse order.
#include "sim/mpi/collectives/algorithms.hpp"
#include "sim/mpi/collectives/open_mpi.hpp"
#include "sim/mpi/collectives/thresholds.hpp"

namespace nearfield::sim {

Task<> allreduce_by_recursive_doubling(Communicator& comm, NonPowerOfTwoFold folded, Buffer data, Address scratch) {
  const int place = folded.place_of(comm.rank());
  for (int distance = 1; distance < folded.num_places; distance *= 2) {
    const int partner = folded.rank_at(place ^ distance);
    co_await comm.sendrecv(partner, data, partner, Buffer(scratch, data.bytes()));
    co_await comm.combine(data.address, scratch, data.bytes());
  }
}

Task<> allreduce_by_recursive_halving(Communicator& comm, NonPowerOfTwoFold folded, Buffer data, Address scratch) {
  const RecursiveHalving halving(folded.place_of(comm.rank()), element_offsets(data.bytes(), folded.num_places), true);
  co_await reduce_by_recursive_halving(comm, folded, halving, data.address, scratch);
  for (int level = halving.num_steps() - 1; level >= 0; --level) {
    const int partner = folded.rank_at(halving.partner_place(level));
    co_await comm.sendrecv(partner, halving.own_half(level, data.address), partner,
                           halving.sent_half(level, data.address));
  }
}

namespace {

CollectiveBufferSizes buffer_sizes(int, int, const CollectiveCall& call) { return {call.bytes, call.bytes}; }

Task<> run_allreduce(Communicator& comm, CollectiveCall call) {
  if (call.bytes == 0) co_return;
  if (comm.algorithms() == CollectiveAlgorithms::openmpi) {
    co_await open_mpi::run_allreduce(comm, call);
    co_return;
  }
  const NonPowerOfTwoFold folded(comm.size());
  const Buffer data(call.output, call.bytes);
  const TemporaryBuffer scratch(comm, call.bytes);
  co_await comm.copy(call.output, call.input, call.bytes);
  co_await fold_idle_ranks(comm, folded, data, scratch.begin());
  if (folded.place_of(comm.rank()) >= 0) {
    const bool too_few = call.bytes / element_bytes < static_cast<unsigned>(folded.num_places);
    if (call.bytes <= thresholds::allreduce_max_short_bytes || too_few)
      co_await allreduce_by_recursive_doubling(comm, folded, data, scratch.begin());
    else
      co_await allreduce_by_recursive_halving(comm, folded, data, scratch.begin());
  }
  co_await unfold_idle_ranks(comm, folded, data);
}

}  // namespace

const CollectiveSpec allreduce_collective{
    "allreduce",  "every rank gets the sum of all vectors", "the vector of one rank", false, buffer_sizes,
    run_allreduce};

}  // namespace nearfield::sim
