// The simulated MPI's records: requests that programs wait for, messages in flight, and the packets that a rank's
// library finds when it polls.
#pragma once

#include <cstdint>
#include <optional>

#include "sim/engine/config_clock.hpp"
#include "sim/mpi/pattern.hpp"
#include "sim/mpi/schedule.hpp"
#include "sim/node/buffer.hpp"

namespace nearfield::sim {

class Endpoint;
class Protocol;
struct Message;
struct NicTransfer;

// A send or receive request. Its handle is Request (rank.hpp).
struct RequestState : Pattern {
  enum class Direction { send, receive };
  Direction direction = Direction::send;
  Buffer buffer;
  std::uint64_t serial = 0;  // changes with every reuse of this object
  bool is_done = false;
  bool is_synchronous = false;  // a send that completes only when it is matched
  // Members of receives:
  std::uint64_t number = 0;                // in the order of posting
  std::optional<Pattern> program_pattern;  // the pattern that the program posted, if the match is forced
  bool is_ambiguous = false;               // another message also matched `program_pattern`
  std::uint64_t notify_id = 0;             // if not 0, the match is reported at once, under this number
  ConfigClock post_time;
  ConfigClock ready_time;           // earliest time of completion, by extrapolate_completion()
  std::uint64_t matched_bytes = 0;  // length of the message
  std::optional<Ps> data_arrival;   // in the first configuration, if the data arrived before the match
  Address landing_buffer = 0;       // contiguous buffer for a non-contiguous receive
  RequestState* next = nullptr;
};

// The part of a message's record that both sender and receiver know.
struct Envelope {
  Endpoint* from = nullptr;
  Endpoint* to = nullptr;
  int tag = 0;
  Context context = 0;
  std::uint64_t bytes = 0;
  std::uint64_t sequence = 0;  // among the messages from `from` to `to`
  ConfigClock send_time;
  bool is_synchronous = false;
};

// A message in flight. Within a node, sender and receiver share one record. Between nodes, sender and receiver each
// have a record; the receiver's is created when the first transfer arrives. A record refers to the record on the other
// node by a pointer that is never dereferenced, since the other node may be simulated by another process.
struct Message : Envelope {
  Buffer data;
  std::uint64_t arrival_number = 0;  // order of arrival at this receiver
  ConfigClock visible_time;          // time of arrival, by extrapolate_completion()
  Message* peer_message = nullptr;   // record on the other node (opaque), as soon as it is known
  Protocol* protocol = nullptr;
  RequestState* send = nullptr;
  RequestState* receive = nullptr;  // nullptr until the message is matched
  // Members of the protocol:
  Address send_staging = 0, receive_staging = 0;
  std::uint64_t sent_bytes = 0, received_bytes = 0;
  NicTransfer* held_transfer = nullptr;  // transfer that the receiver's NIC holds until a receive is posted
  int num_references = 1;                // reference count: sender and receiver
  Message* next = nullptr;
};

enum class PacketKind {
  arrived,        // a new message at its receiver, not yet matched
  matched,        // an unexpected message whose receive has been posted
  clear_to_send,  // from the receiver: the sender may send this part
  data,           // a part, or the whole message, has arrived
  sent,           // the NIC has read the whole message
  received,       // from the receiver: the whole message has been received
  slot_free,      // from the receiver: a slot of the ring is free
};

struct ProtocolPacket {
  Message* message = nullptr;
  PacketKind kind = PacketKind::arrived;
  std::uint64_t offset = 0, bytes = 0;  // of the part
  Address target = 0;                   // address in the receiver's memory
  std::size_t slot = 0;                 // of a ring
  Address polled_line = 0;              // the line that is polled; 0: none
  Address header_line = 0;              // a further line that is read after it; 0: none
  bool is_in_list = false;              // the line is the beginning of the receiver's list of packets
  bool is_nic_event = false;            // the line is an entry of the NIC's event queue
  ConfigClock visible_time;
  StepId origin;   // the step of a schedule that sent the packet, if schedules are recorded
  Ps latency = 0;  // ScheduleStep::latency
  Endpoint* owner = nullptr;
  ProtocolPacket* next = nullptr;
};

}  // namespace nearfield::sim
