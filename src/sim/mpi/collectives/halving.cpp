#include "sim/mpi/collectives/halving.hpp"

namespace nearfield::sim {

Task<> fold_idle_ranks(Communicator& comm, NonPowerOfTwoFold folded, Buffer data, Address scratch) {
  const int me = comm.rank();
  if (me >= 2 * folded.num_idle_ranks) co_return;
  if (folded.place_of(me) < 0) {
    co_await comm.send_and_wait(me + 1, data);
    co_return;
  }
  co_await comm.receive_and_wait(me - 1, Buffer(scratch, data.bytes()));
  co_await comm.combine(data.address, scratch, data.bytes());
}

Task<> unfold_idle_ranks(Communicator& comm, NonPowerOfTwoFold folded, Buffer data) {
  const int me = comm.rank();
  if (me >= 2 * folded.num_idle_ranks) co_return;
  if (folded.place_of(me) < 0)
    co_await comm.receive_and_wait(me + 1, data);
  else
    co_await comm.send_and_wait(me - 1, data);
}

RecursiveHalving::RecursiveHalving(int place, std::vector<std::uint64_t> offsets, bool nearest_first)
    : place_(place), offsets_(std::move(offsets)) {
  const int places = static_cast<int>(offsets_.size()) - 1;
  BlockRange window{0, places};
  for (int half = places / 2, near = 1; half > 0; half /= 2, near *= 2) {
    const int bit = nearest_first ? near : half, middle = window.first + half;
    const BlockRange lower{window.first, middle}, upper{middle, window.end};
    const bool keeps_upper = (place & bit) != 0;
    steps_.push_back({bit, keeps_upper ? upper : lower, keeps_upper ? lower : upper});
    window = steps_.back().own_half;
  }
}

Task<> reduce_by_recursive_halving(Communicator& comm, NonPowerOfTwoFold folded, const RecursiveHalving& halving,
                                   Address data, Address scratch) {
  for (int level = 0; level < halving.num_steps(); ++level) {
    const int partner = folded.rank_at(halving.partner_place(level));
    const Buffer own_half = halving.own_half(level, data), arriving = halving.own_half(level, scratch);
    co_await comm.sendrecv(partner, halving.sent_half(level, data), partner, arriving);
    co_await comm.combine(own_half.address, arriving.address, own_half.bytes());
  }
}

std::vector<std::uint64_t> element_offsets(std::uint64_t bytes, int places) {
  const std::uint64_t block = bytes / element_bytes / static_cast<unsigned>(places) * element_bytes;
  std::vector<std::uint64_t> offsets;
  for (int place = 0; place < places; ++place) offsets.push_back(block * static_cast<unsigned>(place));
  offsets.push_back(bytes);
  return offsets;
}

}  // namespace nearfield::sim
