// The peers of a rank, which are its neighbours on the same node, and the signals by which they publish the phases of
// an exchange.
#pragma once

#include <cstdint>
#include <vector>

#include "halo/exchange.hpp"
#include "halo/liveness.hpp"
#include "halo/node.hpp"
#include "halo/signals.hpp"

namespace nearfield::halo {

/// Construction is collective over the node. While a function waits, it drives the progress of the current exchange's
/// messages to other nodes; the current exchange may be nullptr. Throws Error if a neighbour is lost or late.
class Peers {
 public:
  Peers(const Node& node, const SignalBoard& board, double limit_s);

  /// Adds a rank whose cells this rank reads, or which reads cells of this rank. Ignores ranks on other nodes, this
  /// rank itself, and ranks that were added before. Returns whether the rank was added.
  bool add_peer(int rank);

  int num_peers() const { return static_cast<int>(peers_.size()); }
  int num_usable_cpus() const { return num_usable_cpus_; }  ///< CPUs on which ranks of this node may run

  /// Begins the next phase: signals all peers that the cells of this rank are ready.
  void publish_phase() {
    ++phase_;
    for (const auto& peer : peers_) peer.outgoing_signal->num_published_phases.store(phase_, std::memory_order_release);
  }
  /// Waits until all peers have published this phase.
  void await_ready(HaloExchange* current_exchange) {
    for (const auto& peer : peers_)
      wait_for_counter(peer.incoming_signal->num_published_phases, phase_, max_spins_,
                       [&] { back_off(peer.local_rank, "started phase", current_exchange); });
    liveness_.end_wait();
  }
  /// Signals the peers whose cells this rank has fetched, then waits until the peers that fetch this rank's cells have
  /// done so.
  void wait_until_cells_are_fetched(const ExchangePlan& plan, HaloExchange* current_exchange);

 private:
  struct Peer {
    int local_rank;
    Signal* outgoing_signal;  ///< written by this rank
    Signal* incoming_signal;  ///< written by the peer
    /// Values of Signal::num_fetched_phases that this rank has published, and for which it waits.
    std::uint64_t num_published_fetches = 0, num_awaited_fetches = 0;
  };

  Peer& peer_of_rank(int rank) {
    return peers_[static_cast<std::size_t>(peer_index_by_local_rank_[node_.local_rank_of(rank)])];
  }
  void back_off(int local_rank, const char* action, HaloExchange* current_exchange);

  const Node& node_;
  SignalBoard board_;
  int num_usable_cpus_, max_spins_;
  PeerLiveness liveness_;
  std::vector<Peer> peers_;
  std::vector<int> peer_index_by_local_rank_;  ///< local rank -> index into peers_, or -1
  std::uint64_t phase_ = 0;
};

}  // namespace nearfield::halo
