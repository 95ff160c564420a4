// The posted receives and the unexpected messages of one rank. Most programs name peer and tag in every receive, so
// receives and messages are in separate lists for each peer.
#pragma once

#include <unordered_map>

#include "sim/engine/pool.hpp"
#include "sim/mpi/message.hpp"

namespace nearfield::sim {

class MatchQueues {
 public:
  // Returns the sequence number that the next receive gets.
  std::uint64_t next_receive_number() const { return num_posted_ + 1; }
  // Numbers the receive. Removes and returns the oldest unexpected message that the receive matches; if there is none,
  // returns nullptr, and post_receive() must follow.
  Message* match_unexpected(RequestState& receive);
  void post_receive(RequestState& receive) { posted_receives_from(receive.peer).push(&receive); }
  // Records the arrival of a message. Removes and returns the oldest posted receive that matches the message; if there
  // is none, returns nullptr, and add_unexpected() must follow. Throws std::logic_error if the message has overtaken
  // another message of its sender.
  RequestState* match_posted(Message& message);
  void add_unexpected(Message& message);
  // Returns the oldest unexpected message that matches the pattern; nullptr if there is none.
  Message* oldest_unexpected(const Pattern& pattern) const;
  // Calls visit(message) for each unexpected message that matches the pattern.
  template <class Visit>
  void for_each_unexpected(const Pattern& pattern, Visit visit) const {
    for (const auto& [from, sender] : peers_)
      sender.unexpected.find([&](const Message& one) {
        if (pattern.matches(from, one.tag, one.context)) visit(one);
        return false;
      });
  }

 private:
  struct PeerQueues {
    FifoList<RequestState> posted_receives;  // receives that name this peer
    FifoList<Message> unexpected;
    std::uint64_t num_arrived = 0;  // number of messages that have arrived from this peer
  };
  FifoList<RequestState>& posted_receives_from(int peer) {
    return peer == any_rank ? any_source_receives_ : peers_[peer].posted_receives;
  }

  std::unordered_map<int, PeerQueues> peers_;
  FifoList<RequestState> any_source_receives_;  // receives from MPI_ANY_SOURCE
  std::uint64_t num_posted_ = 0, num_arrived_ = 0;
};

}  // namespace nearfield::sim
