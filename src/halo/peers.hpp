// The neighbours on a rank's node, and the signals in both directions that publish phases.
#pragma once

#include <cstdint>
#include <vector>

#include "halo/exchange.hpp"
#include "halo/liveness.hpp"
#include "halo/node.hpp"
#include "halo/signals.hpp"

namespace nearfield::halo {

/// Construction is collective over the node. Waiting functions take the current exchange, or nullptr, to drive the
/// progress of its messages to other nodes; they throw if a neighbour is lost or late.
class Peers {
 public:
  Peers(const Node& node, const Board& board, double limit_s);

  /// Adds a rank whose cells this one reads, or that reads its cells. Returns whether it is on this node, not this rank
  /// itself, and new.
  bool add(int rank);

  int count() const { return static_cast<int>(peers_.size()); }
  int cpus() const { return cpus_; }  ///< CPUs that the ranks of this node may run on

  /// Begins the next phase: publishes that this rank's cells are ready.
  void publish() {
    ++phase_;
    for (const auto& peer : peers_) peer.mine->ready.store(phase_, std::memory_order_release);
  }
  /// Waits until all peers have published the phase, too.
  void await_ready(Exchange* current) {
    for (const auto& peer : peers_)
      await(peer.theirs->ready, phase_, spins_, [&] { back_off(peer.local, "started phase", current); });
    liveness_.arrived();
  }
  /// Notifies the peers whose cells were fetched, then waits for those that fetch this rank's.
  void wait_for_readers(const Move& move, Exchange* current);

 private:
  struct Peer {
    int local;
    Signal* mine;                              ///< to it
    Signal* theirs;                            ///< from it
    std::uint64_t published = 0, awaited = 0;  ///< counts of `taken`
  };

  Peer& peer(int rank) { return peers_[static_cast<std::size_t>(index_[node_.index_here(rank)])]; }
  void back_off(int local, const char* what, Exchange* current);

  const Node& node_;
  Board board_;
  int cpus_, spins_;
  Liveness liveness_;
  std::vector<Peer> peers_;
  std::vector<int> index_;  ///< local rank -> index into peers_, or -1
  std::uint64_t phase_ = 0;
};

}  // namespace nearfield::halo
