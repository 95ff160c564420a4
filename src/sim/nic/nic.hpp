// The NIC of a node, as its cores see it: per core a queue of events in host memory, commands written into it by the
// core, answers and headers by the NIC; payload read and written by DMA. A policy, one per variant, decides where the
// NIC writes to.
//
// Machine::nic->polling says how a core learns of an event. By `queue` the NIC writes each event into the next entry,
// and the core reads that: a miss if the NIC wrote it to memory, a hit where it was injected. By `command` a poll is a
// command, as S4 has it (sections 2 and 4.3): the core writes it into an entry and tells the NIC, the NIC fetches it and
// writes its answer, the event, into the entry, and the core reads that. In both, the answer to a send is written into
// the entry of its command.
//
// The poll that finds something is simulated. Those before it find nothing; they go on at its pace and take no time
// beyond the waiting. What each command among them does in the caches is counted as often, at each memory speed, but not
// done. What the network does to a message is network.hpp's.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "machine/machine.hpp"
#include "sim/counts.hpp"
#include "sim/nic/nic_counts.hpp"
#include "sim/nic/policy.hpp"
#include "sim/node.hpp"

namespace nearfield::sim {

class Nic {
 public:
  Nic(Node& node, const Machine& machine, const std::vector<PolicyChoice>& policies);

  // ---- what a core does; its clock goes on
  // Writes a command and tells the NIC; returns the entry, where the answer will be.
  Address post(int core);
  // Polls until it learns of the event that notify() or answer() returned.
  void poll(int core, Address entry, const Clock& visible);

  // ---- what the NIC does. Called in the order of time
  // Fetches a command; returns when the NIC has it.
  Clock fetch(Address entry, const Clock& start);
  // Reads payload, line after line without waiting for each; returns when it has the first bytes, and all.
  struct Reading {
    Clock first, last;
  };
  Reading read(Address address, std::uint64_t bytes, const Clock& start);
  // Writes payload that arrives from `first` to `last`, after everything that came before; returns when all is written.
  Clock write(int core, Address address, std::uint64_t bytes, std::uint64_t message_bytes, const Clock& first,
              const Clock& last);
  struct Event {
    Address entry = 0;
    Clock visible;
  };
  // Tells a core of an event, a header; returns the entry that it was written into, or none, and when.
  Event notify(int core, const Clock& start);
  // Writes the answer to a command into its entry; returns where and when.
  Event answer(int core, Address entry, const Clock& start);

  // Steers payload for this range into this cache level, counted from 0; the latest call counts.
  void steer(Address address, std::uint64_t bytes, int level);
  void reset_counts() {
    counts_.assign(counts_.size(), {});
    of_empty_polls_.assign(of_empty_polls_.size(), {});
    like_last_.assign(like_last_.size(), {});
  }
  const NicCounts& counts(int variant) const { return counts_[static_cast<std::size_t>(variant)]; }
  // What polls that found nothing did in the caches.
  Counts of_empty_polls(int variant, std::size_t speed) const;

 private:
  struct EventQueue {
    Address begin = 0;
    std::uint64_t next = 0;
    Clock pace;  // how long the last poll that found something took
  };
  struct Steered {
    Address begin, end;
    int level;
  };

  Address next_entry(int core);
  void read_entry(int core, Address entry);
  void ask(int core);
  void ask_and_look(int core);
  Clock place(const Incoming& incoming, const Clock& start);
  std::optional<int> steered(Address address) const;
  EventQueue& queue(int core) { return queues_[static_cast<std::size_t>(core)]; }

  Node& node_;
  nearfield::Nic parameters_;
  Ps post_, dma_;
  std::vector<std::unique_ptr<Policy>> policies_;  // one per variant
  std::vector<EventQueue> queues_;                 // one per core
  std::vector<Steered> steered_;
  Clock written_;  // everything that arrived before
  std::vector<NicCounts> counts_;
  Count asked_ = 0;
  std::vector<Counts> of_poll_;  // what a poll does in the caches, by the last one that was looked at
  // Empty polls like that one; and what those before did. Both per variant and memory speed.
  std::vector<std::array<Count, speeds>> like_last_;
  std::vector<std::array<Counts, speeds>> of_empty_polls_;
};

}  // namespace nearfield::sim
