// Alltoall: short ones by Bruck's algorithm, in log2 p steps with packing; medium ones by nonblocking messages to all;
// long ones pairwise.
#include "sim/mpi/collectives/blocks.hpp"
#include "sim/mpi/collectives/thresholds.hpp"

namespace nearfield::sim {
namespace {

enum class Packing { in, out };

// Copies between the packed buffer and every run of blocks whose number has this bit.
Task<> repack(Communicator& all, Blocks blocks, int bit, Address packed, Packing direction) {
  const int ranks = all.size();
  for (int run = bit; run < ranks; run += 2 * bit) {
    const Buffer part = blocks.range(run, std::min(run + bit, ranks));
    if (direction == Packing::in)
      co_await all.copy(packed, part.address, part.bytes());
    else
      co_await all.copy(part.address, packed, part.bytes());
    packed += part.bytes();
  }
}

std::uint64_t packed_bytes(Blocks blocks, int bit, int ranks) {
  std::uint64_t bytes = 0;
  for (int run = bit; run < ranks; run += 2 * bit) bytes += blocks.range(run, std::min(run + bit, ranks)).bytes();
  return bytes;
}

// Blocks are rotated so that block i is for rank me + i. Each travels the distances of the set bits of i. Then block i
// is from rank me - i, and the blocks are reordered by rank.
Task<> by_bruck(Communicator& all, Call call) {
  const int ranks = all.size(), me = all.rank();
  const Blocks in = equal_blocks(call.in, call.bytes, ranks), out = equal_blocks(call.out, call.bytes, ranks);
  const Temporary going(all, out.total_bytes), coming(all, out.total_bytes);
  const Buffer upper = in.range(me, ranks), lower = in.range(0, me);
  co_await all.copy(out.begin, upper.address, upper.bytes());
  co_await all.copy(out.begin + upper.bytes(), lower.address, lower.bytes());
  for (int bit = 1; bit < ranks; bit *= 2) {
    const std::uint64_t bytes = packed_bytes(out, bit, ranks);
    co_await repack(all, out, bit, going.begin(), Packing::in);
    co_await all.sendrecv((me + bit) % ranks, Buffer(going.begin(), bytes), (me - bit + ranks) % ranks,
                          Buffer(coming.begin(), bytes));
    co_await repack(all, out, bit, coming.begin(), Packing::out);
  }
  const Blocks placed = equal_blocks(going.begin(), call.bytes, ranks);
  for (int i = 0; i < ranks; ++i)
    co_await all.copy(placed.one((me - i + ranks) % ranks).address, out.one(i).address, call.bytes);
  co_await all.copy(out.begin, placed.begin, out.total_bytes);
}

Task<> all_at_once(Communicator& all, Call call) {
  const int ranks = all.size(), me = all.rank();
  const Blocks in = equal_blocks(call.in, call.bytes, ranks), out = equal_blocks(call.out, call.bytes, ranks);
  std::vector<Request> requests;
  for (int i = 1; i < ranks; ++i) {
    const int from = (me + i) % ranks;
    requests.push_back(all.receive(from, out.one(from)));
  }
  for (int i = 1; i < ranks; ++i) {
    const int to = (me + i) % ranks;
    requests.push_back(all.send(to, in.one(to)));
  }
  co_await all.copy(out.one(me).address, in.one(me).address, call.bytes);
  co_await all.wait(requests);
}

Task<> pair_by_pair(Communicator& all, Call call) {
  const int ranks = all.size(), me = all.rank();
  const Blocks in = equal_blocks(call.in, call.bytes, ranks), out = equal_blocks(call.out, call.bytes, ranks);
  co_await all.copy(out.one(me).address, in.one(me).address, call.bytes);
  for (int i = 1; i < ranks; ++i) {
    const int to = power_of_two(ranks) ? me ^ i : (me + i) % ranks;
    const int from = power_of_two(ranks) ? to : (me - i + ranks) % ranks;
    co_await all.sendrecv(to, in.one(to), from, out.one(from));
  }
}

CallSizes sizes(int, int ranks, const Call& call) {
  const std::uint64_t bytes = call.bytes * static_cast<unsigned>(ranks);
  return {bytes, bytes};
}

Task<> run(Communicator& all, Call call) {
  if (call.bytes == 0) co_return;
  if (call.bytes <= thresholds::alltoall_short_bytes && all.size() >= thresholds::alltoall_short_ranks)
    co_await by_bruck(all, call);
  else if (call.bytes <= thresholds::alltoall_medium_bytes)
    co_await all_at_once(all, call);
  else
    co_await pair_by_pair(all, call);
}

}  // namespace

const CollectiveSpec alltoall_collective{
    "alltoall", "every rank gets a block from every rank", "what goes from one rank to one other", false, sizes, run};

}  // namespace nearfield::sim
