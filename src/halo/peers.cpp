#include "halo/peers.hpp"

#include <sched.h>
#include <unistd.h>

#include <array>
#include <bit>

namespace nearfield::halo {
namespace {

// Returns the number of CPUs on which any rank of this node may run, by sched_getaffinity. A container, an allocation
// of a part of the node, and a launcher that binds ranks make it smaller than the number of CPUs. Collective over the
// node.
int count_usable_cpus(const Node& node) {
  std::array<unsigned long, 128> mask{};  // 8192 bits: the maximum number of CPUs in Linux
  if (sched_getaffinity(0, sizeof mask, reinterpret_cast<cpu_set_t*>(mask.data())) != 0) mask.fill(0);
  MPI_Allreduce(MPI_IN_PLACE, mask.data(), static_cast<int>(mask.size()), MPI_UNSIGNED_LONG, MPI_BOR, node.node_comm);
  int cpus = 0;
  for (const auto part : mask) cpus += std::popcount(part);
  return cpus ? cpus : static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
}

}  // namespace

Peers::Peers(const Node& node, const SignalBoard& board, double limit_s)
    : node_(node),
      board_(board),
      num_usable_cpus_(count_usable_cpus(node)),
      max_spins_(node.local_size > num_usable_cpus_ ? 50 : 5000),
      liveness_(node, limit_s),
      peer_index_by_local_rank_(static_cast<std::size_t>(node.local_size), -1) {}

bool Peers::add_peer(int rank) {
  const int local = rank < 0 ? -1 : node_.local_rank_by_rank[static_cast<std::size_t>(rank)];
  if (local < 0 || local == node_.local_rank || peer_index_by_local_rank_[static_cast<std::size_t>(local)] >= 0)
    return false;
  peer_index_by_local_rank_[static_cast<std::size_t>(local)] = num_peers();
  peers_.push_back({local, &board_.signal_of(node_.local_rank, local), &board_.signal_of(local, node_.local_rank)});
  return true;
}

void Peers::wait_until_cells_are_fetched(const ExchangePlan& plan, HaloExchange* current_exchange) {
  for (const auto& message : plan.messages)
    if (message.source >= 0) {
      auto& from = peer_of_rank(message.source);
      from.outgoing_signal->num_fetched_phases.store(++from.num_published_fetches, std::memory_order_release);
    }
  for (const auto& message : plan.messages)
    if (message.destination >= 0) {
      auto& to = peer_of_rank(message.destination);
      wait_for_counter(to.incoming_signal->num_fetched_phases, ++to.num_awaited_fetches, max_spins_,
                       [&] { back_off(to.local_rank, "fetched cells of phase", current_exchange); });
      liveness_.end_wait();
    }
}

void Peers::back_off(int local_rank, const char* action, HaloExchange* current_exchange) {
  sched_yield();
  if (current_exchange) current_exchange->progress();
  liveness_.check_peer(local_rank, action, phase_);
}

}  // namespace nearfield::halo
