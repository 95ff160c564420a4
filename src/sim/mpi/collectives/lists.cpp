#include "sim/mpi/collectives/lists.hpp"

#include "sim/mpi/collectives/blocks.hpp"

namespace nearfield::sim {
namespace {

constexpr int max_peers_at_once = 32;  // MPICH's MPIR_CVAR_ALLTOALL_THROTTLE

const Buffer& part_of_rank(Parts parts, int rank) { return parts[static_cast<std::size_t>(rank)]; }

// Exchanges a part with another rank in place, through a temporary buffer.
Task<> swap_in_place(Communicator& comm, int other, Buffer part) {
  const TemporaryBuffer send_buffer(comm, part.bytes());
  const Buffer packed(send_buffer.begin(), part.bytes());
  co_await comm.copy(packed, part);
  co_await comm.sendrecv(other, packed, other, part);
}

}  // namespace

Task<> gatherv(Communicator& comm, Buffer own_part, Parts parts, int root) {
  std::vector<Request> requests;
  if (comm.rank() != root) {
    if (own_part.bytes() > 0) co_await comm.send_and_wait(root, own_part);
    co_return;
  }
  for (int from = 0; from < comm.size(); ++from)
    if (from != root && part_of_rank(parts, from).bytes() > 0)
      requests.push_back(comm.receive(from, part_of_rank(parts, from)));
  co_await comm.copy(part_of_rank(parts, root), own_part);
  co_await comm.wait(requests);
}

Task<> scatterv(Communicator& comm, Parts parts, Buffer own_part, int root) {
  std::vector<Request> requests;
  if (comm.rank() != root) {
    if (own_part.bytes() > 0) co_await comm.receive_and_wait(root, own_part);
    co_return;
  }
  for (int to = 0; to < comm.size(); ++to)
    if (to != root && part_of_rank(parts, to).bytes() > 0) requests.push_back(comm.send(to, part_of_rank(parts, to)));
  co_await comm.copy(own_part, part_of_rank(parts, root));
  co_await comm.wait(requests);
}

Task<> allgatherv(Communicator& comm, Buffer own_part, Parts parts) {
  const int ranks = comm.size(), me = comm.rank(), right = (me + 1) % ranks, left = (me - 1 + ranks) % ranks;
  co_await comm.copy(part_of_rank(parts, me), own_part);
  for (int step = 1; step < ranks; ++step) {
    const Buffer &send_buffer = part_of_rank(parts, (me - step + 1 + ranks) % ranks),
                 &receive_buffer = part_of_rank(parts, (me - step + ranks) % ranks);
    std::vector<Request> requests;
    if (receive_buffer.bytes() > 0) requests.push_back(comm.receive(left, receive_buffer));
    if (send_buffer.bytes() > 0) requests.push_back(comm.send(right, send_buffer));
    co_await comm.wait(requests);
  }
}

Task<> alltoallw(Communicator& comm, Parts in, Parts out) {
  const int ranks = comm.size(), me = comm.rank();
  co_await comm.copy(part_of_rank(out, me), part_of_rank(in, me));
  for (int begin = 1; begin < ranks; begin += max_peers_at_once) {
    const int end = std::min(begin + max_peers_at_once, ranks);
    std::vector<Request> requests;
    for (int i = begin; i < end; ++i)
      if (const int from = (me + i) % ranks; part_of_rank(out, from).bytes() > 0)
        requests.push_back(comm.receive(from, part_of_rank(out, from)));
    for (int i = begin; i < end; ++i)
      if (const int to = (me - i + ranks) % ranks; part_of_rank(in, to).bytes() > 0)
        requests.push_back(comm.send(to, part_of_rank(in, to)));
    co_await comm.wait(requests);
  }
}

// All ranks process the pairs of ranks in the same order, which avoids deadlock.
Task<> alltoallw_in_place(Communicator& comm, Parts parts) {
  const int ranks = comm.size(), me = comm.rank();
  for (int other = 0; other < ranks; ++other)
    if (other != me && part_of_rank(parts, other).bytes() > 0)
      co_await swap_in_place(comm, other, part_of_rank(parts, other));
}

Task<> neighbor_alltoallw(Communicator& comm, std::span<const int> destinations, Parts in, std::span<const int> sources,
                          Parts out) {
  std::vector<Request> requests;
  for (std::size_t i = 0; i < sources.size(); ++i)
    if (sources[i] >= 0) requests.push_back(comm.receive(sources[i], out[i]));
  for (std::size_t i = 0; i < destinations.size(); ++i)
    if (destinations[i] >= 0) requests.push_back(comm.send(destinations[i], in[i]));
  co_await comm.wait(requests);
}

// `partial` is the sum over all ranks combined so far, `out` the sum over those with lower ranks than this one.
Task<> scan(Communicator& comm, CollectiveCall call, bool exclusive) {
  if (call.bytes == 0) co_return;
  const int ranks = comm.size(), me = comm.rank();
  const TemporaryBuffer partial(comm, call.bytes), receive_buffer(comm, call.bytes);
  const Buffer send_buffer(partial.begin(), call.bytes), arriving(receive_buffer.begin(), call.bytes);
  co_await comm.copy(partial.begin(), call.input, call.bytes);
  if (!exclusive) co_await comm.copy(call.output, call.input, call.bytes);
  bool has_output = !exclusive;
  for (int distance = 1; distance < ranks; distance *= 2) {
    const int other = me ^ distance;
    if (other >= ranks) continue;
    co_await comm.sendrecv(other, send_buffer, other, arriving);
    co_await comm.combine(partial.begin(), receive_buffer.begin(), call.bytes);
    if (other > me) continue;
    if (std::exchange(has_output, true))
      co_await comm.combine(call.output, receive_buffer.begin(), call.bytes);
    else
      co_await comm.copy(call.output, receive_buffer.begin(), call.bytes);
  }
}

}  // namespace nearfield::sim
