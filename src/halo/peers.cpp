#include "halo/peers.hpp"

#include <sched.h>
#include <unistd.h>

#include <array>
#include <bit>

namespace nearfield::halo {
namespace {

// Returns the number of CPUs on which any rank of this node may run, by sched_getaffinity. It is smaller than the node
// in a container, in a part of a node, or under a launcher that binds ranks. Collective over the node.
int count_usable_cpus(const Node& node) {
  std::array<unsigned long, 128> mask{};  // 8192 bits: the maximum number of CPUs in Linux
  if (sched_getaffinity(0, sizeof mask, reinterpret_cast<cpu_set_t*>(mask.data())) != 0) mask.fill(0);
  MPI_Allreduce(MPI_IN_PLACE, mask.data(), static_cast<int>(mask.size()), MPI_UNSIGNED_LONG, MPI_BOR, node.local);
  int cpus = 0;
  for (const auto part : mask) cpus += std::popcount(part);
  return cpus ? cpus : static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
}

}  // namespace

Peers::Peers(const Node& node, const SignalBoard& board, double limit_s)
    : node_(node),
      board_(board),
      cpus_(count_usable_cpus(node)),
      spins_(node.local_size > cpus_ ? 50 : 5000),
      liveness_(node, limit_s),
      index_(static_cast<std::size_t>(node.local_size), -1) {}

bool Peers::add_peer(int rank) {
  const int local = rank < 0 ? -1 : node_.local_of[static_cast<std::size_t>(rank)];
  if (local < 0 || local == node_.local_rank || index_[static_cast<std::size_t>(local)] >= 0) return false;
  index_[static_cast<std::size_t>(local)] = peer_count();
  peers_.push_back({local, &board_.signal_of(node_.local_rank, local), &board_.signal_of(local, node_.local_rank)});
  return true;
}

void Peers::wait_for_readers(const ExchangePlan& move, HaloExchange* current) {
  for (const auto& message : move.messages)
    if (message.from >= 0) {
      auto& from = peer_of_rank(message.from);
      from.mine->taken.store(++from.published, std::memory_order_release);
    }
  for (const auto& message : move.messages)
    if (message.to >= 0) {
      auto& to = peer_of_rank(message.to);
      wait_for_counter(to.theirs->taken, ++to.awaited, spins_,
                       [&] { back_off(to.local, "fetched cells of phase", current); });
      liveness_.end_wait();
    }
}

void Peers::back_off(int local, const char* what, HaloExchange* current) {
  sched_yield();
  if (current) current->progress();
  liveness_.check_peer(local, what, phase_);
}

}  // namespace nearfield::halo
