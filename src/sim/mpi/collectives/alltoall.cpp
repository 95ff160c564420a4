// Alltoall: short blocks by Bruck's algorithm, in log2 p steps with packing; medium blocks by nonblocking messages to
// all ranks at once; long blocks pairwise.
#include "sim/mpi/collectives/algorithms.hpp"
#include "sim/mpi/collectives/open_mpi.hpp"
#include "sim/mpi/collectives/thresholds.hpp"

namespace nearfield::sim {
namespace {

enum class PackDirection { in, out };

// Copies between the packed buffer and all blocks whose number has this bit set, one run of blocks after the other.
Task<> copy_packed_blocks(Communicator& comm, Blocks blocks, int bit, Address packed, PackDirection direction) {
  const int ranks = comm.size();
  for (int run = bit; run < ranks; run += 2 * bit) {
    const Buffer part = blocks.block_range(run, std::min(run + bit, ranks));
    if (direction == PackDirection::in)
      co_await comm.copy(packed, part.address, part.bytes());
    else
      co_await comm.copy(part.address, packed, part.bytes());
    packed += part.bytes();
  }
}

std::uint64_t packed_bytes(Blocks blocks, int bit, int ranks) {
  std::uint64_t bytes = 0;
  for (int run = bit; run < ranks; run += 2 * bit) bytes += blocks.block_range(run, std::min(run + bit, ranks)).bytes();
  return bytes;
}

}  // namespace

// Bruck's algorithm. First rotates the blocks so that block i is for rank me + i. In step k, every rank sends all
// blocks i in whose number bit k is set to the rank that is 2^k further. Afterwards block i is from rank me - i, and
// the blocks are reordered by rank.
Task<> alltoall_by_bruck(Communicator& comm, CollectiveCall call) {
  const int ranks = comm.size(), me = comm.rank();
  const Blocks in = equal_blocks(call.input, call.bytes, ranks), out = equal_blocks(call.output, call.bytes, ranks);
  const TemporaryBuffer send_buffer(comm, out.total_bytes), receive_buffer(comm, out.total_bytes);
  const Buffer upper = in.block_range(me, ranks), lower = in.block_range(0, me);
  co_await comm.copy(out.begin, upper.address, upper.bytes());
  co_await comm.copy(out.begin + upper.bytes(), lower.address, lower.bytes());
  for (int bit = 1; bit < ranks; bit *= 2) {
    const std::uint64_t bytes = packed_bytes(out, bit, ranks);
    co_await copy_packed_blocks(comm, out, bit, send_buffer.begin(), PackDirection::in);
    co_await comm.sendrecv((me + bit) % ranks, Buffer(send_buffer.begin(), bytes), (me - bit + ranks) % ranks,
                           Buffer(receive_buffer.begin(), bytes));
    co_await copy_packed_blocks(comm, out, bit, receive_buffer.begin(), PackDirection::out);
  }
  const Blocks placed = equal_blocks(send_buffer.begin(), call.bytes, ranks);
  for (int i = 0; i < ranks; ++i)
    co_await comm.copy(placed.single_block((me - i + ranks) % ranks).address, out.single_block(i).address, call.bytes);
  co_await comm.copy(out.begin, placed.begin, out.total_bytes);
}

Task<> alltoall_nonblocking(Communicator& comm, CollectiveCall call) {
  const int ranks = comm.size(), me = comm.rank();
  const Blocks in = equal_blocks(call.input, call.bytes, ranks), out = equal_blocks(call.output, call.bytes, ranks);
  std::vector<Request> requests;
  for (int i = 1; i < ranks; ++i) {
    const int from = (me + i) % ranks;
    requests.push_back(comm.receive(from, out.single_block(from)));
  }
  for (int i = 1; i < ranks; ++i) {
    const int to = (me + i) % ranks;
    requests.push_back(comm.send(to, in.single_block(to)));
  }
  co_await comm.copy(out.single_block(me).address, in.single_block(me).address, call.bytes);
  co_await comm.wait(requests);
}

Task<> alltoall_pairwise(Communicator& comm, CollectiveCall call) {
  const int ranks = comm.size(), me = comm.rank();
  const Blocks in = equal_blocks(call.input, call.bytes, ranks), out = equal_blocks(call.output, call.bytes, ranks);
  co_await comm.copy(out.single_block(me).address, in.single_block(me).address, call.bytes);
  for (int i = 1; i < ranks; ++i) {
    const int to = is_power_of_two(ranks) ? me ^ i : (me + i) % ranks;
    const int from = is_power_of_two(ranks) ? to : (me - i + ranks) % ranks;
    co_await comm.sendrecv(to, in.single_block(to), from, out.single_block(from));
  }
}

namespace {

CollectiveBufferSizes buffer_sizes(int, int ranks, const CollectiveCall& call) {
  const std::uint64_t bytes = call.bytes * static_cast<unsigned>(ranks);
  return {bytes, bytes};
}

Task<> run_alltoall(Communicator& comm, CollectiveCall call) {
  if (call.bytes == 0) co_return;
  if (comm.algorithms() == CollectiveAlgorithms::openmpi) {
    co_await open_mpi::run_alltoall(comm, call);
    co_return;
  }
  if (call.bytes <= thresholds::alltoall_max_short_bytes && comm.size() >= thresholds::alltoall_min_short_ranks)
    co_await alltoall_by_bruck(comm, call);
  else if (call.bytes <= thresholds::alltoall_max_medium_bytes)
    co_await alltoall_nonblocking(comm, call);
  else
    co_await alltoall_pairwise(comm, call);
}

}  // namespace

const CollectiveSpec alltoall_collective{
    "alltoall",  "every rank gets a block from every rank", "what goes from one rank to one other", false, buffer_sizes,
    run_alltoall};

}  // namespace nearfield::sim
