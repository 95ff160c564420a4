// The posted receives and the unexpected messages of one rank. Most programs name peer and tag in every receive, so
// both are in lists per peer.
#pragma once

#include <unordered_map>

#include "sim/engine/pool.hpp"
#include "sim/mpi/message.hpp"

namespace nearfield::sim {

class MatchQueues {
 public:
  // Returns the number that the next receive gets.
  std::uint64_t next_number() const { return posted_ + 1; }
  // Numbers the receive. Returns the oldest unexpected message that it matches, which is removed; nullptr if there is
  // none, and post() must follow.
  Message* match_unexpected(RequestState& receive);
  void post(RequestState& receive) { posted_list(receive.peer).push(&receive); }
  // Records the arrival of a message. Returns the oldest posted receive that matches it, which is removed; nullptr if
  // there is none, and add_unexpected() must follow. Throws std::logic_error if the message has overtaken another one
  // of its sender.
  RequestState* match_posted(Message& message);
  void add_unexpected(Message& message);
  // Returns the oldest unexpected message that matches the pattern; nullptr if there is none.
  Message* oldest_unexpected(const Pattern& pattern) const;
  // Calls visit(message) for each unexpected message that matches the pattern.
  template <class Visit>
  void for_each_unexpected(const Pattern& pattern, Visit visit) const {
    for (const auto& [from, sender] : peers_)
      sender.unexpected.find([&](const Message& one) {
        if (pattern.takes(from, one.tag, one.context)) visit(one);
        return false;
      });
  }

 private:
  struct Peer {
    FifoList<RequestState> posted;  // receives that name this peer
    FifoList<Message> unexpected;
    std::uint64_t arrived = 0;  // messages from it
  };
  FifoList<RequestState>& posted_list(int peer) { return peer == any_rank ? posted_to_any_ : peers_[peer].posted; }

  std::unordered_map<int, Peer> peers_;
  FifoList<RequestState> posted_to_any_;  // receives that name no peer
  std::uint64_t posted_ = 0, arrived_ = 0;
};

}  // namespace nearfield::sim
