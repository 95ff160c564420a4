#include "sim/mpi/collectives/lists.hpp"

#include "sim/mpi/collectives/blocks.hpp"

namespace nearfield::sim {
namespace {

constexpr int max_peers_at_once = 32;  // MPICH's MPIR_CVAR_ALLTOALL_THROTTLE

const Buffer& part_of_rank(Parts parts, int rank) { return parts[static_cast<std::size_t>(rank)]; }

// Exchanges a part with another rank in place, by way of a temporary buffer.
Task<> swap_in_place(Communicator& all, int other, Buffer part) {
  const TemporaryBuffer going(all, part.bytes());
  const Buffer packed(going.begin(), part.bytes());
  co_await all.copy(packed, part);
  co_await all.sendrecv(other, packed, other, part);
}

}  // namespace

Task<> gatherv(Communicator& all, Buffer mine, Parts parts, int root) {
  std::vector<Request> requests;
  if (all.rank() != root) {
    if (mine.bytes() > 0) co_await all.send_now(root, mine);
    co_return;
  }
  for (int from = 0; from < all.size(); ++from)
    if (from != root && part_of_rank(parts, from).bytes() > 0)
      requests.push_back(all.receive(from, part_of_rank(parts, from)));
  co_await all.copy(part_of_rank(parts, root), mine);
  co_await all.wait(requests);
}

Task<> scatterv(Communicator& all, Parts parts, Buffer mine, int root) {
  std::vector<Request> requests;
  if (all.rank() != root) {
    if (mine.bytes() > 0) co_await all.receive_now(root, mine);
    co_return;
  }
  for (int to = 0; to < all.size(); ++to)
    if (to != root && part_of_rank(parts, to).bytes() > 0) requests.push_back(all.send(to, part_of_rank(parts, to)));
  co_await all.copy(mine, part_of_rank(parts, root));
  co_await all.wait(requests);
}

Task<> allgatherv(Communicator& all, Buffer mine, Parts parts) {
  const int ranks = all.size(), me = all.rank(), right = (me + 1) % ranks, left = (me - 1 + ranks) % ranks;
  co_await all.copy(part_of_rank(parts, me), mine);
  for (int step = 1; step < ranks; ++step) {
    const Buffer &going = part_of_rank(parts, (me - step + 1 + ranks) % ranks),
                 &coming = part_of_rank(parts, (me - step + ranks) % ranks);
    std::vector<Request> requests;
    if (coming.bytes() > 0) requests.push_back(all.receive(left, coming));
    if (going.bytes() > 0) requests.push_back(all.send(right, going));
    co_await all.wait(requests);
  }
}

Task<> alltoallw(Communicator& all, Parts in, Parts out) {
  const int ranks = all.size(), me = all.rank();
  co_await all.copy(part_of_rank(out, me), part_of_rank(in, me));
  for (int begin = 1; begin < ranks; begin += max_peers_at_once) {
    const int end = std::min(begin + max_peers_at_once, ranks);
    std::vector<Request> requests;
    for (int i = begin; i < end; ++i)
      if (const int from = (me + i) % ranks; part_of_rank(out, from).bytes() > 0)
        requests.push_back(all.receive(from, part_of_rank(out, from)));
    for (int i = begin; i < end; ++i)
      if (const int to = (me - i + ranks) % ranks; part_of_rank(in, to).bytes() > 0)
        requests.push_back(all.send(to, part_of_rank(in, to)));
    co_await all.wait(requests);
  }
}

// All ranks process the pairs of ranks in the same order, which avoids deadlock.
Task<> alltoallw_in_place(Communicator& all, Parts parts) {
  const int ranks = all.size(), me = all.rank();
  for (int other = 0; other < ranks; ++other)
    if (other != me && part_of_rank(parts, other).bytes() > 0)
      co_await swap_in_place(all, other, part_of_rank(parts, other));
}

Task<> neighbor_alltoallw(Communicator& all, std::span<const int> destinations, Parts in, std::span<const int> sources,
                          Parts out) {
  std::vector<Request> requests;
  for (std::size_t i = 0; i < sources.size(); ++i)
    if (sources[i] >= 0) requests.push_back(all.receive(sources[i], out[i]));
  for (std::size_t i = 0; i < destinations.size(); ++i)
    if (destinations[i] >= 0) requests.push_back(all.send(destinations[i], in[i]));
  co_await all.wait(requests);
}

// `partial` is the sum over all ranks combined so far, `out` the sum over those with lower ranks than this one.
Task<> scan(Communicator& all, Call call, bool exclusive) {
  if (call.bytes == 0) co_return;
  const int ranks = all.size(), me = all.rank();
  const TemporaryBuffer partial(all, call.bytes), coming(all, call.bytes);
  const Buffer going(partial.begin(), call.bytes), arriving(coming.begin(), call.bytes);
  co_await all.copy(partial.begin(), call.in, call.bytes);
  if (!exclusive) co_await all.copy(call.out, call.in, call.bytes);
  bool any = !exclusive;
  for (int distance = 1; distance < ranks; distance *= 2) {
    const int other = me ^ distance;
    if (other >= ranks) continue;
    co_await all.sendrecv(other, going, other, arriving);
    co_await all.combine(partial.begin(), coming.begin(), call.bytes);
    if (other > me) continue;
    if (std::exchange(any, true))
      co_await all.combine(call.out, coming.begin(), call.bytes);
    else
      co_await all.copy(call.out, coming.begin(), call.bytes);
  }
}

}  // namespace nearfield::sim
