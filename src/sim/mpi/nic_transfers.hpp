// The transfer of a network message from the sender's NIC to the completion event at the receiver, as events of the two
// nodes' engines: the sender's NIC fetches the command and reads the payload by DMA, the network carries the payload,
// and the receiver's NIC writes it in pieces of at most a page as it arrives, and then writes an event. Departed
// transfers wait for the end of the window, when the transfers of all nodes enter the network in the order of time
// (window_scheduler.hpp).
#pragma once

#include <optional>
#include <vector>

#include "sim/engine/pool.hpp"
#include "sim/mpi/message.hpp"
#include "sim/network/network.hpp"

namespace nearfield::sim {

struct NodeState;
struct ClusterState;
class NicTransfers;

struct NicTransfer {
  Message* message = nullptr;  // this node's record
  Endpoint* from = nullptr;
  Endpoint* to = nullptr;
  Address command_entry = 0;                   // entry of the sender's command queue; 0: the core drives the NIC itself
  Address source = 0;                          // address of the payload; 0: the NIC already has it
  std::uint64_t bytes = 0;                     // payload
  Address target = 0;                          // address to write to; 0: nothing is written, unless `placed`
  bool is_placed_on_arrival = false;           // the protocol chooses the target on arrival
  std::optional<PacketKind> arrival_packet;    // packet for the receiver when everything has arrived
  std::optional<PacketKind> departure_packet;  // packet for the sender when everything has been read
  bool is_silent = false;                      // no event is written into the receiver's queue
  std::uint64_t part_offset = 0, part_bytes = 0;  // copied into the packets
  Address part_target = 0;
  StepId origin;  // the step of the sender's schedule, if schedules are recorded
  // Members that are set during the transfer:
  NicTransfers* node_transfers = nullptr;  // transfers of the node on which this transfer is
  ConfigClock start, departure_time, first_byte_arrival, last_byte_arrival;
  std::uint64_t written_bytes = 0;  // payload bytes so far
  Ps latency = 0;                   // ScheduleStep::latency, so far
  Ps nic_arrival = 0;               // arrival of the last byte at the receiver's NIC, of the first variant
};

// A transfer that has departed from its node, and what the receiving node needs to know about the message.
struct DepartedTransfer {
  Ps departure_time = 0;  // time of the departure event
  MessageTimes message_times;
  Envelope envelope;
  Message* remote_message = nullptr;  // the receiver's record; nullptr: this is the message's first transfer
  NicTransfer transfer;
};

// Serializes or deserializes a departed transfer. Pointers to messages are meaningful only on the shard that owns the
// messages.
template <class Pack>
void pack_fields(Pack& pack, DepartedTransfer& departed, const ClusterState& cluster);

class NicTransfers {
 public:
  explicit NicTransfers(NodeState& node_state) : node_state_(node_state) {}
  // Starts the transfer at the sender's clock.
  void send(const NicTransfer& transfer);
  // Writes the payload that the receiver's NIC holds to the address `target`. The write begins at the time `start`.
  void write_held(NicTransfer& transfer, Address target, const ConfigClock& start);

  // ---- between windows
  // Returns the transfers that have departed since the last clear_departed_transfers(), in the order of time.
  std::vector<DepartedTransfer>& departed_transfers() { return departed_transfers_; }
  void clear_departed_transfers() { departed_transfers_.clear(); }
  // Schedules the arrival of another node's transfer at the time `when` of the engine.
  void schedule_arrival(const DepartedTransfer& departed, const MessageTimes& message_times, Ps when);

 private:
  template <void (NicTransfers::*phase)(NicTransfer&)>
  void schedule_phase(const ConfigClock& when, NicTransfer& transfer);
  template <void (NicTransfers::*phase)(NicTransfer&)>
  static void run_phase(void* pointer);
  void inject_into_network(NicTransfer& transfer);
  void leave_nic(NicTransfer& transfer);
  Message& make_receiver_message(const Envelope& envelope);
  void arrive_at_nic(NicTransfer& transfer);
  void begin_write(NicTransfer& transfer, Address target, const ConfigClock& start);
  void write_piece(NicTransfer& transfer);
  void notify_receiver(NicTransfer& transfer);

  NodeState& node_state_;
  ObjectPool<NicTransfer> pool_;
  std::vector<DepartedTransfer> departed_transfers_;
};

}  // namespace nearfield::sim
