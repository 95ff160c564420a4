// The NIC of a node, as its cores see it. Each core has an event queue in host memory: the core writes commands into
// the queue, the NIC writes answers to commands, and message headers. Payload is read and written by DMA. Per variant,
// a placement policy decides whether the NIC writes into a cache or to memory.
//
// Machine::nic->polling selects how a core learns of an event. With `queue`, the NIC writes each event into the next
// entry, which the core reads: a miss if the NIC wrote the event to memory, a hit if the NIC injected it. With
// `command`, a poll is a command, as in paper S4 (papers/S4/README.md), sections 2 and 4.3: the core writes the command
// into an entry and rings the NIC's doorbell, the NIC fetches the command and writes the event into the entry as the
// answer, and the core reads the answer. Either way, the answer to a send is written into the entry of the send's
// command.
//
// Only the successful poll is simulated. Each empty poll before it is assumed to take as long as the last successful
// poll; empty polls do not prolong the wait. The cache accesses of empty polls by command are counted at each memory
// speed, but not simulated. The network is in network.hpp.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "machine/machine.hpp"
#include "sim/memory/counts.hpp"
#include "sim/nic/nic_counts.hpp"
#include "sim/nic/policy.hpp"
#include "sim/node/node.hpp"

namespace nearfield::sim {

class Nic {
 public:
  Nic(Node& node, const Machine& machine, const std::vector<PolicyChoice>& policies);

  // ---- actions of a core, which advance its clock
  // Writes a command and rings the NIC's doorbell. Returns the address of the command's entry, into which the NIC will
  // write the answer.
  Address post_command(int core);
  // Polls until the event that write_event() or answer_command() returned is visible.
  void poll_event(int core, Address entry, const ConfigClock& visible_time);

  // ---- actions of the NIC, called in the order of time
  // Fetches a command from its entry by DMA. Returns the completion time.
  ConfigClock fetch_command(Address entry, const ConfigClock& start);
  // Reads payload by pipelined DMA. Returns the times at which the first bytes and all bytes have been read.
  struct ReadTimes {
    ConfigClock first, last;
  };
  ReadTimes read_payload(Address address, std::uint64_t bytes, const ConfigClock& start);
  // Writes payload whose first byte arrives at `first` and whose last byte arrives at `last`, after all earlier writes.
  // Returns the completion time.
  ConfigClock write_payload(int core, Address address, std::uint64_t bytes, std::uint64_t message_bytes,
                            const ConfigClock& first, const ConfigClock& last);
  struct Event {
    Address entry = 0;
    ConfigClock visible_time;
  };
  // Writes an event (a message header) for a core. Returns the event's entry (0 if polling is by command, so that no
  // event is written) and the time at which the event is visible.
  Event write_event(int core, const ConfigClock& start);
  // Writes the answer to a command into the command's entry. Returns the entry and the time at which the answer is
  // visible.
  Event answer_command(int core, Address entry, const ConfigClock& start);

  // From this call on, payload for this address range goes to a cache level, counted from 0, if the placement policy is
  // tph. The latest call for an address takes precedence.
  void steer_range(Address address, std::uint64_t bytes, int level);
  void reset_counts() {
    counts_.assign(counts_.size(), {});
    empty_poll_counts_.assign(empty_poll_counts_.size(), {});
    empty_polls_since_sample_.assign(empty_polls_since_sample_.size(), {});
  }
  const NicCounts& counts(int variant) const { return counts_[static_cast<std::size_t>(variant)]; }
  // Returns the cache counts of all empty command polls at one memory speed.
  Counts empty_poll_counts(int variant, std::size_t speed) const;

 private:
  struct EventQueue {
    Address begin = 0;
    std::uint64_t next_entry = 0;
    ConfigClock poll_duration;  // duration of the last successful poll
  };
  struct SteeringHint {
    Address begin, end;
    int level;
  };

  Address take_next_entry(int core);
  void read_entry(int core, Address entry);
  void poll_by_command(int core);
  void poll_and_sample_counts(int core);
  ConfigClock write_to_chosen_target(const IncomingWrite& incoming, const ConfigClock& start);
  std::optional<int> steered_level_of(Address address) const;
  EventQueue& event_queue_of(int core) { return event_queues_[static_cast<std::size_t>(core)]; }

  Node& node_;
  nearfield::Nic nic_parameters_;
  Ps post_time_, dma_time_;
  std::vector<std::unique_ptr<Policy>> placement_policies_;  // one per variant
  std::vector<EventQueue> event_queues_;                     // one per core
  std::vector<SteeringHint> steering_hints_;
  ConfigClock last_write_end_;  // completion time of the last write
  std::vector<NicCounts> counts_;
  Count num_command_polls_ = 0;
  std::vector<Counts> counts_per_poll_;  // cache counts of one poll, taken from the last sampled poll
  // Per variant and memory speed: the number of empty polls since the last sampled poll, and the cache counts of all
  // empty polls before that sample.
  std::vector<std::array<Count, num_memory_speeds>> empty_polls_since_sample_;
  std::vector<std::array<Counts, num_memory_speeds>> empty_poll_counts_;
};

}  // namespace nearfield::sim
