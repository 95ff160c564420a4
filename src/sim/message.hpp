// The simulated MPI's records of messages: operations that programs wait for, messages under way, and the items that a
// rank's library finds when it polls.
#pragma once

#include <cstdint>
#include <optional>

#include "sim/buffer.hpp"
#include "sim/clock.hpp"
#include "sim/pattern.hpp"

namespace nearfield::sim {

class Endpoint;
class Protocol;
struct Message;
struct Shipment;

// A send or a receive that a program has begun.
struct Operation : Pattern {
  enum class Kind { send, receive };
  Kind kind = Kind::send;
  Buffer buffer;
  std::uint64_t serial = 0;  // another one for every use of this object
  bool done = false;
  bool synchronous = false;  // a send that is over only when its receive is there
  // Of receives:
  std::uint64_t number = 0;      // in the order of posting
  std::optional<Pattern> asked;  // what the program would take, where it is imposed which message it gets
  bool contested = false;        // and there was another message that it would take
  std::uint64_t told = 0;        // the program wants to know at once which message it gets, under this number
  Clock posted;
  Clock ready;         // when the rank could have seen that it is done, by estimate()
  Address packed = 0;  // where data in blocks arrives in one piece
  Operation* next = nullptr;
};

// What both sides know of a message.
struct Envelope {
  Endpoint* from = nullptr;
  Endpoint* to = nullptr;
  int tag = 0;
  Context context = 0;
  std::uint64_t bytes = 0;
  std::uint64_t sequence = 0;  // of those between these two
  Clock sent;
  bool synchronous = false;
};

// A message under way. Within a node both sides use one; between nodes each side has its own, which is made when the
// first shipment comes, and tells the other one by a pointer that it never looks behind: it may be of another process.
struct Message : Envelope {
  Buffer data;
  std::uint64_t arrival = 0;  // of those that came to this receiver
  Clock visible;              // when it came, by estimate()
  Message* other = nullptr;   // the other side's, as soon as it is known
  Protocol* protocol = nullptr;
  Operation* send = nullptr;
  Operation* receive = nullptr;  // when it is matched
  // For the protocol:
  Address staged_out = 0, staged_in = 0;
  std::uint64_t sent_bytes = 0, received_bytes = 0;
  Shipment* kept = nullptr;  // at the receiver's NIC, until a receive is posted
  int holders = 1;           // the sides that use it; when all have dropped it, it is gone
  Message* next = nullptr;
};

enum class Step {
  arrived,        // a new message, at its receiver; still to be matched
  matched,        // it waited for its receive, which is there now
  clear_to_send,  // from the receiver: send me this part
  data,           // a part, or all, has arrived
  sent,           // the NIC has read everything
  taken,          // from the receiver: I have got everything
  slot_free,      // from the receiver: the ring has room again
};

struct Item {
  Message* message = nullptr;
  Step step = Step::arrived;
  std::uint64_t offset = 0, bytes = 0;  // of the part
  Address target = 0;                   // where the receiver wants it
  std::size_t slot = 0;                 // of a ring
  Address line = 0;                     // that is polled; 0: none
  bool of_nic = false;                  // the line is an event of the NIC
  Clock visible;
  Endpoint* owner = nullptr;
  Item* next = nullptr;
};

}  // namespace nearfield::sim
