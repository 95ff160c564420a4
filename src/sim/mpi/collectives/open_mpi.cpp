#include "sim/mpi/collectives/open_mpi.hpp"

#include <limits>
#include <span>

#include "sim/mpi/collectives/algorithms.hpp"

namespace nearfield::sim::open_mpi {
namespace {

enum class Algorithm {
  linear,  // to all ranks at once
  chain,
  binary_tree,
  binomial_tree,
  quaternary_tree,  // a k-nomial tree
  scatter_allgather,
  bruck,
  recursive_doubling,
  ring,
  neighbors,
  recursive_halving,
  reduce_bcast,
  pairwise,
};

constexpr std::uint64_t unlimited = std::numeric_limits<std::uint64_t>::max();

// One row of a selection: the algorithm for fewer ranks and fewer bytes than these limits. The first row that applies
// is used.
struct AlgorithmRange {
  std::uint64_t max_ranks, max_bytes;
  Algorithm algorithm;
};

Algorithm select_algorithm(std::span<const AlgorithmRange> rows, int ranks, std::uint64_t bytes) {
  for (const AlgorithmRange& row : rows)
    if (static_cast<std::uint64_t>(ranks) < row.max_ranks && bytes < row.max_bytes) return row.algorithm;
  return rows.back().algorithm;
}

// ---- bcast along trees

// The places of a rank's neighbors in a tree. The root has place 0 and parent -1.
struct TreeNeighbors {
  int parent = -1;
  std::vector<int> children;
};

TreeNeighbors find_in_chain(int place, int ranks) {
  TreeNeighbors neighbors{place - 1, {}};
  if (place + 1 < ranks) neighbors.children.push_back(place + 1);
  return neighbors;
}

TreeNeighbors find_in_star(int place, int ranks) {
  TreeNeighbors neighbors{place > 0 ? 0 : -1, {}};
  for (int child = 1; place == 0 && child < ranks; ++child) neighbors.children.push_back(child);
  return neighbors;
}

// The places of a level are consecutive. The children of place p on a level of w places are p + w and p + 2w: place 0
// has the children 1 and 2, place 1 has 3 and 5, place 2 has 4 and 6.
TreeNeighbors find_in_binary_tree(int place, int ranks) {
  const int width = static_cast<int>(std::bit_floor(static_cast<unsigned>(place + 1)));  // of the place's level
  TreeNeighbors neighbors;
  for (const int child : {place + width, place + 2 * width})
    if (child < ranks) neighbors.children.push_back(child);
  if (place > 0) neighbors.parent = place - width / 2 >= width - 1 ? place - width : place - width / 2;
  return neighbors;
}

// A place's parent is the place without its highest bit.
TreeNeighbors find_in_binomial_tree(int place, int ranks) {
  TreeNeighbors neighbors;
  if (place > 0) neighbors.parent = place - static_cast<int>(std::bit_floor(static_cast<unsigned>(place)));
  for (int bit = 1; bit < ranks; bit *= 2)
    if (bit > place && place + bit < ranks) neighbors.children.push_back(place + bit);
  return neighbors;
}

// As a binomial tree, in base 4: a place's parent is the place without its lowest digit that is not 0.
TreeNeighbors find_in_quaternary_tree(int place, int ranks) {
  TreeNeighbors neighbors;
  int digit = 1;
  while (digit < ranks && place / digit % 4 == 0) digit *= 4;
  if (place > 0) neighbors.parent = place - place / digit % 4 * digit;
  for (digit /= 4; digit > 0; digit /= 4)
    for (int i = 1; i < 4; ++i)
      if (place + i * digit < ranks) neighbors.children.push_back(place + i * digit);
  return neighbors;
}

TreeNeighbors find_in_tree(Algorithm tree, int place, int ranks) {
  switch (tree) {
    case Algorithm::chain:
      return find_in_chain(place, ranks);
    case Algorithm::binary_tree:
      return find_in_binary_tree(place, ranks);
    case Algorithm::binomial_tree:
      return find_in_binomial_tree(place, ranks);
    case Algorithm::quaternary_tree:
      return find_in_quaternary_tree(place, ranks);
    default:
      return find_in_star(place, ranks);
  }
}

// Every rank receives the whole message from its parent, and sends it to all its children at once.
Task<> bcast_along_tree(Communicator& comm, Algorithm tree, Buffer data, int root) {
  const int ranks = comm.size();
  const TreeNeighbors neighbors = find_in_tree(tree, relative_rank(root, comm.rank(), ranks), ranks);
  if (neighbors.parent >= 0) co_await comm.receive_and_wait(absolute_rank(root, neighbors.parent, ranks), data);
  std::vector<Request> requests;
  for (const int child : neighbors.children) requests.push_back(comm.send(absolute_rank(root, child, ranks), data));
  co_await comm.wait(requests);
}

// Sizes are those of the message.
constexpr AlgorithmRange bcast_selection[] = {
    {4, 32, Algorithm::chain},
    {4, 256, Algorithm::binary_tree},
    {4, 512, Algorithm::chain},
    {4, 1024, Algorithm::quaternary_tree},
    {4, 32768, Algorithm::linear},
    {4, 131072, Algorithm::binary_tree},
    {4, 262144, Algorithm::chain},
    {4, 524288, Algorithm::linear},
    {4, 1048576, Algorithm::binomial_tree},
    {4, unlimited, Algorithm::binary_tree},
    {8, 64, Algorithm::binary_tree},
    {8, 128, Algorithm::binomial_tree},
    {8, 2048, Algorithm::binary_tree},
    {8, 8192, Algorithm::binomial_tree},
    {8, 1048576, Algorithm::linear},
    {8, unlimited, Algorithm::chain},
    {16, 8, Algorithm::quaternary_tree},
    {16, 64, Algorithm::binary_tree},
    {16, 4096, Algorithm::quaternary_tree},
    {16, 16384, Algorithm::binary_tree},
    {16, 32768, Algorithm::binomial_tree},
    {16, unlimited, Algorithm::linear},
    {32, 4096, Algorithm::quaternary_tree},
    {32, 1048576, Algorithm::binomial_tree},
    {32, unlimited, Algorithm::scatter_allgather},
    {64, 2048, Algorithm::binomial_tree},
    {128, unlimited, Algorithm::quaternary_tree},
    {256, 2, Algorithm::binomial_tree},
    {256, 16384, Algorithm::binary_tree},
    {256, 32768, Algorithm::linear},
    {256, 65536, Algorithm::binary_tree},
    {unlimited, unlimited, Algorithm::quaternary_tree},
};

// ---- allgather

// The neighbor exchange of J. Chen, L. Zhang, Y. Zhang, W. Yuan, 2005, in p / 2 steps: in each step, a rank exchanges
// the two blocks that it received in the preceding step with its left or its right neighbor, alternately. The number of
// ranks must be even.
Task<> allgather_by_neighbors(Communicator& comm, Blocks blocks) {
  const int ranks = comm.size(), me = comm.rank();
  const bool is_even = me % 2 == 0;
  const int right = (me + 1) % ranks, left = (me - 1 + ranks) % ranks;
  const int partner[] = {is_even ? right : left, is_even ? left : right};
  co_await comm.sendrecv(partner[0], blocks.single_block(me), partner[0], blocks.single_block(partner[0]));
  int sent = me - me % 2;  // the first of the two blocks that this rank sends next
  for (int step = 1; step < ranks / 2; ++step) {
    const int other = partner[step % 2];
    // The arriving blocks come from ranks at increasing distance, alternately to the left and to the right.
    const int first = (me - me % 2 + (is_even == (step % 2 == 1) ? -1 : 1) * 2 * ((step + 1) / 2) + 2 * ranks) % ranks;
    co_await comm.sendrecv(other, blocks.block_range(sent, sent + 2), other, blocks.block_range(first, first + 2));
    sent = first;
  }
}

// Sizes are those of a rank's block.
constexpr AlgorithmRange allgather_selection[] = {
    {32, unlimited, Algorithm::recursive_doubling},
    {64, 1024, Algorithm::recursive_doubling},
    {64, 65536, Algorithm::neighbors},
    {64, unlimited, Algorithm::ring},
    {128, 512, Algorithm::recursive_doubling},
    {128, 65536, Algorithm::neighbors},
    {128, unlimited, Algorithm::ring},
    {256, 512, Algorithm::recursive_doubling},
    {256, 131072, Algorithm::neighbors},
    {256, 524288, Algorithm::ring},
    {256, 1048576, Algorithm::neighbors},
    {256, unlimited, Algorithm::ring},
    {unlimited, 32, Algorithm::recursive_doubling},
    {unlimited, 128, Algorithm::bruck},
    {unlimited, 1024, Algorithm::recursive_doubling},
    {unlimited, 131072, Algorithm::neighbors},
    {unlimited, 524288, Algorithm::ring},
    {unlimited, 1048576, Algorithm::neighbors},
    {unlimited, unlimited, Algorithm::ring},
};

// For two ranks: each block goes from the sender's contribution directly into the receiver's result.
Task<> allgather_of_two(Communicator& comm, CollectiveCall call) {
  const int me = comm.rank(), other = 1 - me;
  const Blocks out = equal_blocks(call.output, call.bytes, 2);
  co_await comm.sendrecv(other, Buffer(call.input, call.bytes), other, out.single_block(other));
  co_await comm.copy(out.single_block(me).address, call.input, call.bytes);
}

// ---- allreduce

// Reduces by a ring, in which each block is summed up while it passes all ranks, then gathers the sums by another ring.
Task<> allreduce_by_ring(Communicator& comm, Buffer data, Address scratch) {
  const int ranks = comm.size(), me = comm.rank();
  const int right = (me + 1) % ranks, left = (me - 1 + ranks) % ranks;
  const std::uint64_t count = data.bytes() / element_bytes, places = static_cast<unsigned>(ranks);
  const Blocks blocks{data.address, (count + places - 1) / places * element_bytes, data.bytes()};
  for (int step = 1; step < ranks; ++step) {
    const Buffer sent = blocks.single_block((me - step + 1 + ranks) % ranks);
    const Buffer summed = blocks.single_block((me - step + ranks) % ranks);
    co_await comm.sendrecv(right, sent, left, Buffer(scratch, summed.bytes()));
    co_await comm.combine(summed.address, scratch, summed.bytes());
  }
  co_await allgather_by_ring(comm, blocks, ranks - 1);  // this rank has the block to the right of its own
}

Task<> reduce_and_bcast(Communicator& comm, CollectiveCall call) {
  call.root = 0;
  co_await find_collective("reduce").run(comm, call);
  if (comm.rank() == 0) call.input = call.output;
  co_await bcast_along_tree(comm, Algorithm::binomial_tree, Buffer(call.output, call.bytes), 0);
}

// Sizes are those of the vector.
constexpr AlgorithmRange allreduce_selection[] = {
    {4, 8, Algorithm::ring},
    {4, 4096, Algorithm::recursive_doubling},
    {4, 8192, Algorithm::ring},
    {4, 16384, Algorithm::recursive_doubling},
    {4, 262144, Algorithm::ring},
    {4, unlimited, Algorithm::recursive_halving},
    {8, 16, Algorithm::ring},
    {16, 8192, Algorithm::recursive_doubling},
    {16, unlimited, Algorithm::recursive_halving},
    {32, 64, Algorithm::ring},
    {32, 4096, Algorithm::recursive_doubling},
    {32, unlimited, Algorithm::recursive_halving},
    {64, 128, Algorithm::ring},
    {64, unlimited, Algorithm::recursive_halving},
    {128, 262144, Algorithm::recursive_doubling},
    {128, unlimited, Algorithm::recursive_halving},
    {256, 131072, Algorithm::reduce_bcast},
    {256, 262144, Algorithm::recursive_doubling},
    {256, unlimited, Algorithm::recursive_halving},
    {unlimited, 4096, Algorithm::reduce_bcast},
    {unlimited, unlimited, Algorithm::recursive_halving},
};

// ---- alltoall

// Sizes are those of the data from one rank to another.
constexpr AlgorithmRange alltoall_selection[] = {
    {3, unlimited, Algorithm::pairwise},
    {8, 524288, Algorithm::linear},
    {8, 1048576, Algorithm::pairwise},
    {16, unlimited, Algorithm::linear},
    {32, 4, Algorithm::linear},
    {32, 512, Algorithm::bruck},
    {32, unlimited, Algorithm::linear},
    {64, 512, Algorithm::bruck},
    {64, unlimited, Algorithm::linear},
    {256, 1024, Algorithm::bruck},
    {256, 262144, Algorithm::linear},
    {256, unlimited, Algorithm::pairwise},
    {unlimited, 1024, Algorithm::bruck},
    {unlimited, 32768, Algorithm::linear},
    {unlimited, unlimited, Algorithm::pairwise},
};

}  // namespace

Task<> run_bcast(Communicator& comm, CollectiveCall call) {
  const int ranks = comm.size();
  const Address begin = comm.rank() == call.root ? call.input : call.output;
  const Algorithm algorithm = select_algorithm(bcast_selection, ranks, call.bytes);
  if (algorithm != Algorithm::scatter_allgather) {
    co_await bcast_along_tree(comm, algorithm, Buffer(begin, call.bytes), call.root);
    co_return;
  }
  const auto places = static_cast<std::uint64_t>(ranks);
  const Blocks blocks{begin, (call.bytes + places - 1) / places, call.bytes};
  const AllgatherStep step = is_power_of_two(ranks) ? AllgatherStep::recursive_doubling : AllgatherStep::ring;
  co_await bcast_by_scatter(comm, blocks, call.root, step);
}

Task<> run_allgather(Communicator& comm, CollectiveCall call) {
  const int ranks = comm.size();
  if (ranks == 2) {
    co_await allgather_of_two(comm, call);
    co_return;
  }
  Algorithm algorithm = select_algorithm(allgather_selection, ranks, call.bytes);
  if (algorithm == Algorithm::recursive_doubling && !is_power_of_two(ranks)) algorithm = Algorithm::bruck;
  if (algorithm == Algorithm::neighbors && ranks % 2) algorithm = Algorithm::ring;
  if (algorithm == Algorithm::bruck) {
    co_await allgather_by_bruck(comm, call);
    co_return;
  }
  const Blocks out = equal_blocks(call.output, call.bytes, ranks);
  co_await comm.copy(out.single_block(comm.rank()).address, call.input, call.bytes);
  if (algorithm == Algorithm::recursive_doubling)
    co_await allgather_by_recursive_doubling(comm, out, 0);
  else if (algorithm == Algorithm::neighbors)
    co_await allgather_by_neighbors(comm, out);
  else
    co_await allgather_by_ring(comm, out, 0);
}

Task<> run_allreduce(Communicator& comm, CollectiveCall call) {
  Algorithm algorithm = select_algorithm(allreduce_selection, comm.size(), call.bytes);
  if (algorithm == Algorithm::reduce_bcast) {
    co_await reduce_and_bcast(comm, call);
    co_return;
  }
  const NonPowerOfTwoFold folded(comm.size());
  const bool too_few = call.bytes / element_bytes < static_cast<unsigned>(comm.size());
  if (too_few) algorithm = Algorithm::recursive_doubling;
  const Buffer data(call.output, call.bytes);
  const TemporaryBuffer scratch(comm, call.bytes);
  co_await comm.copy(call.output, call.input, call.bytes);
  if (algorithm == Algorithm::ring) {
    co_await allreduce_by_ring(comm, data, scratch.begin());
    co_return;
  }
  co_await fold_idle_ranks(comm, folded, data, scratch.begin());
  if (folded.place_of(comm.rank()) >= 0) {
    if (algorithm == Algorithm::recursive_doubling)
      co_await allreduce_by_recursive_doubling(comm, folded, data, scratch.begin());
    else
      co_await allreduce_by_recursive_halving(comm, folded, data, scratch.begin());
  }
  co_await unfold_idle_ranks(comm, folded, data);
}

Task<> run_alltoall(Communicator& comm, CollectiveCall call) {
  const Algorithm algorithm = select_algorithm(alltoall_selection, comm.size(), call.bytes);
  if (algorithm == Algorithm::bruck)
    co_await alltoall_by_bruck(comm, call);
  else if (algorithm == Algorithm::pairwise)
    co_await alltoall_pairwise(comm, call);
  else
    co_await alltoall_nonblocking(comm, call);
}

}  // namespace nearfield::sim::open_mpi
