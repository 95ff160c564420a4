// Measures how long received data lies in a rank's memory before the program reads it, by the call that received it.
//
// A received message has three instants, all of the first configuration: its data has arrived, its MPI call has
// completed, and the program reads the first of its bytes, by a load of its own or in a later MPI call that sends them.
// Data that an eager protocol delivers lies in memory of the library from its arrival on, and the library reads it when
// it copies it out; other data is written into the program's buffer. Data of collectives counts from the call's end,
// since it arrives in many messages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

#include "sim/engine/time_vector.hpp"
#include "sim/node/buffer.hpp"
#include "sim/run/replay/call_times.hpp"

namespace nearfield::sim::replay {

// The messages with data that one call site received. Times are sums over the messages that were read.
struct ReceivedData {
  std::uint64_t messages = 0, bytes = 0;
  std::uint64_t unread_messages = 0;  // overwritten before the program read them, or not read before its end
  Ps in_mpi = 0, until_read = 0;      // from arrival to the end of the call, and from there to the first read
  double byte_time = 0;               // the bytes of each message times the ps from its arrival to its first read
};

class FirstReads {
 public:
  using CallKey = CallTimes::CallKey;
  using MessageId = std::uint64_t;

  // `call` has received the first `bytes` of a buffer. Earlier data in these bytes has not been read.
  void add_message(const CallKey& call, const Buffer& buffer, std::uint64_t bytes, Ps arrived, Ps completed);
  bool has_unread() const { return !pieces_.empty(); }
  // Returns an unread message with a byte in this range; nullopt if there is none.
  std::optional<MessageId> find_message(Address address, std::uint64_t bytes) const;
  // The program reads a byte of the message, which find_message() then does not find any more. record_read() follows,
  // when the time of the read is known.
  MessageId begin_read(MessageId message);
  void record_read(MessageId message, Ps now);
  // The program overwrites a byte of the message before it reads any.
  void record_overwritten(MessageId message);
  // An MPI call reads all of a buffer.
  void record_read(const Buffer& buffer, Ps now);
  // Returns the data that a call site has received so far.
  ReceivedData received_by(const CallKey& call) const;

 private:
  struct Message {
    CallKey call;
    std::uint64_t bytes;
    Ps arrived, completed;
    std::vector<Address> pieces;  // keys of pieces_
  };
  struct Piece {
    Address end;
    MessageId message;
  };

  std::unordered_map<MessageId, Message> messages_;  // that are unread, or whose read is not recorded yet
  std::map<Address, Piece> pieces_;                  // of unread messages, by their first byte; they do not overlap
  std::map<CallKey, ReceivedData> received_;
  MessageId next_ = 0;
};

}  // namespace nearfield::sim::replay
