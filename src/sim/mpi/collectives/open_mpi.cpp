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
  tree_of_four,  // a k-nomial tree
  scatter_allgather,
  bruck,
  doubling,
  ring,
  neighbors,
  halving,
  reduce_bcast,
  pairwise,
};

constexpr std::uint64_t any = std::numeric_limits<std::uint64_t>::max();

// One row of a selection: the algorithm below this number of ranks and this size. The first row that applies counts.
struct Selection {
  std::uint64_t max_ranks, max_bytes;
  Algorithm algorithm;
};

Algorithm select(std::span<const Selection> rows, int ranks, std::uint64_t bytes) {
  for (const Selection& row : rows)
    if (static_cast<std::uint64_t>(ranks) < row.max_ranks && bytes < row.max_bytes) return row.algorithm;
  return rows.back().algorithm;
}

// ---- bcast along trees

// The neighbours of a rank in a tree, by place. The root has place 0 and parent -1.
struct TreeNeighbors {
  int parent = -1;
  std::vector<int> children;
};

TreeNeighbors find_in_chain(int place, int ranks) {
  TreeNeighbors found{place - 1, {}};
  if (place + 1 < ranks) found.children.push_back(place + 1);
  return found;
}

TreeNeighbors find_in_star(int place, int ranks) {
  TreeNeighbors found{place > 0 ? 0 : -1, {}};
  for (int child = 1; place == 0 && child < ranks; ++child) found.children.push_back(child);
  return found;
}

// The places of a level follow one another, and the children of a place are as far from it as its level is wide, and
// twice as far: 0 has 1 and 2, 1 has 3 and 5, 2 has 4 and 6.
TreeNeighbors find_in_binary_tree(int place, int ranks) {
  const int width = static_cast<int>(std::bit_floor(static_cast<unsigned>(place + 1)));  // of the place's level
  TreeNeighbors found;
  for (const int child : {place + width, place + 2 * width})
    if (child < ranks) found.children.push_back(child);
  if (place > 0) found.parent = place - width / 2 >= width - 1 ? place - width : place - width / 2;
  return found;
}

// A place's parent is the place without its highest bit.
TreeNeighbors find_in_binomial_tree(int place, int ranks) {
  TreeNeighbors found;
  if (place > 0) found.parent = place - static_cast<int>(std::bit_floor(static_cast<unsigned>(place)));
  for (int bit = 1; bit < ranks; bit *= 2)
    if (bit > place && place + bit < ranks) found.children.push_back(place + bit);
  return found;
}

// As a binomial tree, in base 4: a place's parent is the place without its lowest digit that is not 0.
TreeNeighbors find_in_tree_of_four(int place, int ranks) {
  TreeNeighbors found;
  int digit = 1;
  while (digit < ranks && place / digit % 4 == 0) digit *= 4;
  if (place > 0) found.parent = place - place / digit % 4 * digit;
  for (digit /= 4; digit > 0; digit /= 4)
    for (int i = 1; i < 4; ++i)
      if (place + i * digit < ranks) found.children.push_back(place + i * digit);
  return found;
}

TreeNeighbors find_in_tree(Algorithm tree, int place, int ranks) {
  switch (tree) {
    case Algorithm::chain:
      return find_in_chain(place, ranks);
    case Algorithm::binary_tree:
      return find_in_binary_tree(place, ranks);
    case Algorithm::binomial_tree:
      return find_in_binomial_tree(place, ranks);
    case Algorithm::tree_of_four:
      return find_in_tree_of_four(place, ranks);
    default:
      return find_in_star(place, ranks);
  }
}

// Every rank receives the whole message from its parent, and sends it to all its children at once.
Task<> bcast_along(Communicator& all, Algorithm tree, Buffer data, int root) {
  const int ranks = all.size();
  const TreeNeighbors neighbors = find_in_tree(tree, relative_rank(root, all.rank(), ranks), ranks);
  if (neighbors.parent >= 0) co_await all.receive_now(absolute_rank(root, neighbors.parent, ranks), data);
  std::vector<Request> requests;
  for (const int child : neighbors.children) requests.push_back(all.send(absolute_rank(root, child, ranks), data));
  co_await all.wait(requests);
}

// By the size of the message.
constexpr Selection bcast_selection[] = {
    {4, 32, Algorithm::chain},
    {4, 256, Algorithm::binary_tree},
    {4, 512, Algorithm::chain},
    {4, 1024, Algorithm::tree_of_four},
    {4, 32768, Algorithm::linear},
    {4, 131072, Algorithm::binary_tree},
    {4, 262144, Algorithm::chain},
    {4, 524288, Algorithm::linear},
    {4, 1048576, Algorithm::binomial_tree},
    {4, any, Algorithm::binary_tree},
    {8, 64, Algorithm::binary_tree},
    {8, 128, Algorithm::binomial_tree},
    {8, 2048, Algorithm::binary_tree},
    {8, 8192, Algorithm::binomial_tree},
    {8, 1048576, Algorithm::linear},
    {8, any, Algorithm::chain},
    {16, 8, Algorithm::tree_of_four},
    {16, 64, Algorithm::binary_tree},
    {16, 4096, Algorithm::tree_of_four},
    {16, 16384, Algorithm::binary_tree},
    {16, 32768, Algorithm::binomial_tree},
    {16, any, Algorithm::linear},
    {32, 4096, Algorithm::tree_of_four},
    {32, 1048576, Algorithm::binomial_tree},
    {32, any, Algorithm::scatter_allgather},
    {64, 2048, Algorithm::binomial_tree},
    {128, any, Algorithm::tree_of_four},
    {256, 2, Algorithm::binomial_tree},
    {256, 16384, Algorithm::binary_tree},
    {256, 32768, Algorithm::linear},
    {256, 65536, Algorithm::binary_tree},
    {any, any, Algorithm::tree_of_four},
};

// ---- allgather

// J. Chen, L. Zhang, Y. Zhang, W. Yuan, 2005: in p / 2 steps, pairs of ranks exchange what they received in the step
// before, two blocks at a time, with their two neighbours in turn. The number of ranks must be even.
Task<> allgather_by_neighbors(Communicator& all, Blocks blocks) {
  const int ranks = all.size(), me = all.rank();
  const bool is_even = me % 2 == 0;
  const int right = (me + 1) % ranks, left = (me - 1 + ranks) % ranks;
  const int partner[] = {is_even ? right : left, is_even ? left : right};
  co_await all.sendrecv(partner[0], blocks.single_block(me), partner[0], blocks.single_block(partner[0]));
  int sent = me - me % 2;  // the first of the two blocks that this rank sends next
  for (int step = 1; step < ranks / 2; ++step) {
    const int other = partner[step % 2];
    // What arrives comes from farther and farther away, on the one side and on the other in turn.
    const int first = (me - me % 2 + (is_even == (step % 2 == 1) ? -1 : 1) * 2 * ((step + 1) / 2) + 2 * ranks) % ranks;
    co_await all.sendrecv(other, blocks.block_range(sent, sent + 2), other, blocks.block_range(first, first + 2));
    sent = first;
  }
}

// By the size of a rank's block.
constexpr Selection allgather_selection[] = {
    {32, any, Algorithm::doubling},      {64, 1024, Algorithm::doubling},      {64, 65536, Algorithm::neighbors},
    {64, any, Algorithm::ring},          {128, 512, Algorithm::doubling},      {128, 65536, Algorithm::neighbors},
    {128, any, Algorithm::ring},         {256, 512, Algorithm::doubling},      {256, 131072, Algorithm::neighbors},
    {256, 524288, Algorithm::ring},      {256, 1048576, Algorithm::neighbors}, {256, any, Algorithm::ring},
    {any, 32, Algorithm::doubling},      {any, 128, Algorithm::bruck},         {any, 1024, Algorithm::doubling},
    {any, 131072, Algorithm::neighbors}, {any, 524288, Algorithm::ring},       {any, 1048576, Algorithm::neighbors},
    {any, any, Algorithm::ring},
};

// Two ranks: the block goes from one's own buffer to the other rank's result, without a copy on the way.
Task<> allgather_of_two(Communicator& all, Call call) {
  const int me = all.rank(), other = 1 - me;
  const Blocks out = equal_blocks(call.out, call.bytes, 2);
  co_await all.sendrecv(other, Buffer(call.in, call.bytes), other, out.single_block(other));
  co_await all.copy(out.single_block(me).address, call.in, call.bytes);
}

// ---- allreduce

// A ring in which each rank sums one block on its way around, and a second one that gathers the sums.
Task<> allreduce_by_ring(Communicator& all, Buffer data, Address spare) {
  const int ranks = all.size(), me = all.rank();
  const int right = (me + 1) % ranks, left = (me - 1 + ranks) % ranks;
  const std::uint64_t count = data.bytes() / element_bytes, places = static_cast<unsigned>(ranks);
  const Blocks blocks{data.address, (count + places - 1) / places * element_bytes, data.bytes()};
  for (int step = 1; step < ranks; ++step) {
    const Buffer sent = blocks.single_block((me - step + 1 + ranks) % ranks);
    const Buffer summed = blocks.single_block((me - step + ranks) % ranks);
    co_await all.sendrecv(right, sent, left, Buffer(spare, summed.bytes()));
    co_await all.combine(summed.address, spare, summed.bytes());
  }
  co_await allgather_by_ring(all, blocks, ranks - 1);  // this rank has the block to the right of its own
}

Task<> reduce_and_bcast(Communicator& all, Call call) {
  call.root = 0;
  co_await find_collective("reduce").run(all, call);
  if (all.rank() == 0) call.in = call.out;
  co_await bcast_along(all, Algorithm::binomial_tree, Buffer(call.out, call.bytes), 0);
}

// By the size of the vector.
constexpr Selection allreduce_selection[] = {
    {4, 8, Algorithm::ring},         {4, 4096, Algorithm::doubling},         {4, 8192, Algorithm::ring},
    {4, 16384, Algorithm::doubling}, {4, 262144, Algorithm::ring},           {4, any, Algorithm::halving},
    {8, 16, Algorithm::ring},        {16, 8192, Algorithm::doubling},        {16, any, Algorithm::halving},
    {32, 64, Algorithm::ring},       {32, 4096, Algorithm::doubling},        {32, any, Algorithm::halving},
    {64, 128, Algorithm::ring},      {64, any, Algorithm::halving},          {128, 262144, Algorithm::doubling},
    {128, any, Algorithm::halving},  {256, 131072, Algorithm::reduce_bcast}, {256, 262144, Algorithm::doubling},
    {256, any, Algorithm::halving},  {any, 4096, Algorithm::reduce_bcast},   {any, any, Algorithm::halving},
};

// ---- alltoall

// By the size of what goes from one rank to another.
constexpr Selection alltoall_selection[] = {
    {3, any, Algorithm::pairwise}, {8, 524288, Algorithm::linear},   {8, 1048576, Algorithm::pairwise},
    {16, any, Algorithm::linear},  {32, 4, Algorithm::linear},       {32, 512, Algorithm::bruck},
    {32, any, Algorithm::linear},  {64, 512, Algorithm::bruck},      {64, any, Algorithm::linear},
    {256, 1024, Algorithm::bruck}, {256, 262144, Algorithm::linear}, {256, any, Algorithm::pairwise},
    {any, 1024, Algorithm::bruck}, {any, 32768, Algorithm::linear},  {any, any, Algorithm::pairwise},
};

}  // namespace

Task<> run_bcast(Communicator& all, Call call) {
  const int ranks = all.size();
  const Address begin = all.rank() == call.root ? call.in : call.out;
  const Algorithm algorithm = select(bcast_selection, ranks, call.bytes);
  if (algorithm != Algorithm::scatter_allgather) {
    co_await bcast_along(all, algorithm, Buffer(begin, call.bytes), call.root);
    co_return;
  }
  const auto places = static_cast<std::uint64_t>(ranks);
  const Blocks blocks{begin, (call.bytes + places - 1) / places, call.bytes};
  const AllgatherStep step = is_power_of_two(ranks) ? AllgatherStep::doubling : AllgatherStep::ring;
  co_await bcast_by_scatter(all, blocks, call.root, step);
}

Task<> run_allgather(Communicator& all, Call call) {
  const int ranks = all.size();
  if (ranks == 2) {
    co_await allgather_of_two(all, call);
    co_return;
  }
  Algorithm algorithm = select(allgather_selection, ranks, call.bytes);
  if (algorithm == Algorithm::doubling && !is_power_of_two(ranks)) algorithm = Algorithm::bruck;
  if (algorithm == Algorithm::neighbors && ranks % 2) algorithm = Algorithm::ring;
  if (algorithm == Algorithm::bruck) {
    co_await allgather_by_bruck(all, call);
    co_return;
  }
  const Blocks out = equal_blocks(call.out, call.bytes, ranks);
  co_await all.copy(out.single_block(all.rank()).address, call.in, call.bytes);
  if (algorithm == Algorithm::doubling)
    co_await allgather_by_doubling(all, out, 0);
  else if (algorithm == Algorithm::neighbors)
    co_await allgather_by_neighbors(all, out);
  else
    co_await allgather_by_ring(all, out, 0);
}

Task<> run_allreduce(Communicator& all, Call call) {
  Algorithm algorithm = select(allreduce_selection, all.size(), call.bytes);
  if (algorithm == Algorithm::reduce_bcast) {
    co_await reduce_and_bcast(all, call);
    co_return;
  }
  const NonPowerOfTwoFold folded(all.size());
  const bool too_few = call.bytes / element_bytes < static_cast<unsigned>(all.size());
  if (too_few) algorithm = Algorithm::doubling;
  const Buffer data(call.out, call.bytes);
  const TemporaryBuffer spare(all, call.bytes);
  co_await all.copy(call.out, call.in, call.bytes);
  if (algorithm == Algorithm::ring) {
    co_await allreduce_by_ring(all, data, spare.begin());
    co_return;
  }
  co_await fold_idle_ranks(all, folded, data, spare.begin());
  if (folded.place_of(all.rank()) >= 0) {
    if (algorithm == Algorithm::doubling)
      co_await allreduce_by_doubling(all, folded, data, spare.begin());
    else
      co_await allreduce_by_halving(all, folded, data, spare.begin());
  }
  co_await unfold_idle_ranks(all, folded, data);
}

Task<> run_alltoall(Communicator& all, Call call) {
  const Algorithm algorithm = select(alltoall_selection, all.size(), call.bytes);
  if (algorithm == Algorithm::bruck)
    co_await alltoall_by_bruck(all, call);
  else if (algorithm == Algorithm::pairwise)
    co_await alltoall_pairwise(all, call);
  else
    co_await alltoall_nonblocking(all, call);
}

}  // namespace nearfield::sim::open_mpi
