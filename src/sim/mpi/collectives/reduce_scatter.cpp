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

// Returns the offsets of the places' blocks. The block of a place consists of the block of its rank, preceded by the
// block of the idle neighbor that was folded into the rank, if any.
Offsets offsets_of_places(NonPowerOfTwoFold folded, const Offsets& offsets) {
  Offsets result;
  for (int place = 0; place <= folded.num_places; ++place)
    result.push_back(
        offsets[static_cast<std::size_t>(place < folded.num_idle_ranks ? 2 * place : place + folded.num_idle_ranks)]);
  return result;
}

Task<> reduce_scatter_by_recursive_halving(Communicator& comm, Address in, Address out, Offsets offsets) {
  const int me = comm.rank();
  const NonPowerOfTwoFold folded(comm.size());
  const std::uint64_t total = offsets.back();
  const TemporaryBuffer data(comm, total), scratch(comm, total);
  const Buffer own_block = block_of_rank(data.begin(), offsets, me);
  co_await comm.copy(data.begin(), in, total);
  co_await fold_idle_ranks(comm, folded, Buffer(data.begin(), total), scratch.begin());
  if (folded.place_of(me) >= 0) {
    const RecursiveHalving halving(folded.place_of(me), offsets_of_places(folded, offsets), false);
    co_await reduce_by_recursive_halving(comm, folded, halving, data.begin(), scratch.begin());
    co_await comm.copy(out, own_block.address, own_block.bytes());
  }
  if (me >= 2 * folded.num_idle_ranks) co_return;
  if (folded.place_of(me) < 0)
    co_await comm.receive_and_wait(me + 1, Buffer(out, own_block.bytes()));
  else
    co_await comm.send_and_wait(me - 1, block_of_rank(data.begin(), offsets, me - 1));
}

Task<> reduce_scatter_pairwise(Communicator& comm, Address in, Address out, Offsets offsets) {
  const int ranks = comm.size(), me = comm.rank();
  const Buffer own_block = block_of_rank(in, offsets, me);
  const TemporaryBuffer scratch(comm, own_block.bytes());
  co_await comm.copy(out, own_block.address, own_block.bytes());
  for (int i = 1; i < ranks; ++i) {
    const int to = (me + i) % ranks, from = (me - i + ranks) % ranks;
    co_await comm.sendrecv(to, block_of_rank(in, offsets, to), from, Buffer(scratch.begin(), own_block.bytes()));
    co_await comm.combine(out, scratch.begin(), own_block.bytes());
  }
}

CollectiveBufferSizes buffer_sizes(int, int ranks, const CollectiveCall& call) {
  return {call.bytes * static_cast<unsigned>(ranks), call.bytes};
}

Task<> run_reduce_scatter(Communicator& comm, CollectiveCall call) {
  Offsets offsets;
  for (unsigned block = 0; block <= static_cast<unsigned>(comm.size()); ++block) offsets.push_back(block * call.bytes);
  co_await reduce_scatter(comm, call.input, call.output, std::move(offsets));
}

}  // namespace

Task<> reduce_scatter(Communicator& comm, Address in, Address out, std::vector<std::uint64_t> offsets) {
  if (offsets.back() == 0) co_return;
  if (offsets.back() < thresholds::reduce_scatter_min_long_bytes)
    co_await reduce_scatter_by_recursive_halving(comm, in, out, std::move(offsets));
  else
    co_await reduce_scatter_pairwise(comm, in, out, std::move(offsets));
}

extern const CollectiveSpec reduce_scatter_collective;
const CollectiveSpec reduce_scatter_collective{
    "reduce_scatter",  "every rank gets its block of the sum of all vectors", "what one rank gets", false, buffer_sizes,
    run_reduce_scatter};

}  // namespace nearfield::sim
