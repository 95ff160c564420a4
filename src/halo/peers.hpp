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

/// Construction is collective over the node. While a function waits, it drives the progress of messages to other nodes
/// by the current exchange (may be nullptr). Throws Error if a neighbour is lost or late.
class Peers {
 public:
  Peers(const Node& node, const SignalBoard& board, double limit_s);

  /// Adds a rank whose cells this rank reads, or which reads cells of this rank. Returns whether a peer was added: the
  /// rank is on this node, is not this rank itself, and was not added before.
  bool add_peer(int rank);

  int peer_count() const { return static_cast<int>(peers_.size()); }
  int usable_cpus() const { return cpus_; }  ///< number of CPUs on which ranks of this node may run

  /// Begins the next phase: signals all peers that the cells of this rank are ready.
  void publish_phase() {
    ++phase_;
    for (const auto& peer : peers_) peer.mine->ready.store(phase_, std::memory_order_release);
  }
  /// Waits until all peers have published this phase.
  void await_ready(HaloExchange* current) {
    for (const auto& peer : peers_)
      wait_for_counter(peer.theirs->ready, phase_, spins_, [&] { back_off(peer.local, "started phase", current); });
    liveness_.end_wait();
  }
  /// Signals the peers whose cells this rank has fetched, then waits until the peers that fetch this rank's cells have
  /// done so.
  void wait_for_readers(const ExchangePlan& move, HaloExchange* current);

 private:
  struct Peer {
    int local;
    Signal* mine;                              ///< written by this rank
    Signal* theirs;                            ///< written by the peer
    std::uint64_t published = 0, awaited = 0;  ///< values of `taken` that this rank has published, or waits for
  };

  Peer& peer_of_rank(int rank) { return peers_[static_cast<std::size_t>(index_[node_.local_index_of(rank)])]; }
  void back_off(int local, const char* what, HaloExchange* current);

  const Node& node_;
  SignalBoard board_;
  int cpus_, spins_;
  Liveness liveness_;
  std::vector<Peer> peers_;
  std::vector<int> index_;  ///< local rank -> index into peers_, or -1
  std::uint64_t phase_ = 0;
};

}  // namespace nearfield::halo
