// The simulated MPI's records: requests that programs wait for, messages in flight, and the packets that a rank's
// library finds when it polls.
#pragma once

#include <cstdint>
#include <optional>

#include "sim/engine/config_clock.hpp"
#include "sim/mpi/pattern.hpp"
#include "sim/node/buffer.hpp"

namespace nearfield::sim {

class Endpoint;
class Protocol;
struct Message;
struct NicTransfer;

// A send or receive request. rank.hpp has the handle to it.
struct RequestState : Pattern {
  enum class Kind { send, receive };
  Kind kind = Kind::send;
  Buffer buffer;
  std::uint64_t serial = 0;  // changes with every reuse of this object
  bool done = false;
  bool synchronous = false;  // a send that completes only when it is matched
  // Of receives:
  std::uint64_t number = 0;        // in the order of posting
  std::optional<Pattern> allowed;  // the pattern that the program posted, if the match is forced
  bool is_ambiguous = false;       // another message also matched `allowed`
  std::uint64_t notify_id = 0;     // if not 0, the match is reported at once, under this number
  ConfigClock posted;
  ConfigClock ready;           // earliest time of completion, by extrapolate_completion()
  Address landing_buffer = 0;  // contiguous buffer for a non-contiguous receive
  RequestState* next = nullptr;
};

// What both sides know about a message.
struct Envelope {
  Endpoint* from = nullptr;
  Endpoint* to = nullptr;
  int tag = 0;
  Context context = 0;
  std::uint64_t bytes = 0;
  std::uint64_t sequence = 0;  // among the messages from `from` to `to`
  ConfigClock sent;
  bool synchronous = false;
};

// A message in flight. Within a node both sides share one record. Between nodes each side has its own, which the first
// transfer creates; it identifies the other side's record by an opaque pointer, never dereferenced, since it may belong
// to another process.
struct Message : Envelope {
  Buffer data;
  std::uint64_t arrival = 0;        // order of arrival at this receiver
  ConfigClock visible;              // time of arrival, by extrapolate_completion()
  Message* peer_message = nullptr;  // the other side's record (opaque), as soon as it is known
  Protocol* protocol = nullptr;
  RequestState* send = nullptr;
  RequestState* receive = nullptr;  // when it is matched
  // State of the protocol:
  Address staged_out = 0, staged_in = 0;
  std::uint64_t sent_bytes = 0, received_bytes = 0;
  NicTransfer* held = nullptr;  // held at the receiver's NIC until a receive is posted
  int holders = 1;              // reference count: the sides that use it
  Message* next = nullptr;
};

enum class PacketKind {
  arrived,        // a new message at its receiver, not yet matched
  matched,        // an unexpected message whose receive has been posted
  clear_to_send,  // from the receiver: send this part
  data,           // a part, or the whole message, has arrived
  sent,           // the NIC has read the whole message
  taken,          // from the receiver: the whole message has been received
  slot_free,      // from the receiver: a slot of the ring is free
};

struct ProtocolPacket {
  Message* message = nullptr;
  PacketKind kind = PacketKind::arrived;
  std::uint64_t offset = 0, bytes = 0;  // of the part
  Address target = 0;                   // address in the receiver's memory
  std::size_t slot = 0;                 // of a ring
  Address line = 0;                     // the line that is polled; 0: none
  bool of_nic = false;                  // the line is an entry of the NIC's event queue
  ConfigClock visible;
  Endpoint* owner = nullptr;
  ProtocolPacket* next = nullptr;
};

}  // namespace nearfield::sim
