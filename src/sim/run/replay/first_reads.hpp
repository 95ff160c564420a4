// Measures how long received data lies in a rank's memory before the program reads it, by the call that received it.
//
// A received message has two instants, both of the first configuration: its data has arrived, and its MPI call has
// completed. Data that an eager protocol delivers lies in memory of the library from its arrival on, and the library
// reads it when it copies it out; other data is written into the program's buffer. Each cache line of the buffer has a
// third instant: the program reads the first of its bytes, by a load of its own or in a later MPI call that sends them.
// Data of collectives counts from the call's end, since it arrives in many messages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>

#include "sim/engine/time_vector.hpp"
#include "sim/node/buffer.hpp"
#include "sim/run/replay/call_times.hpp"

namespace nearfield::sim::replay {

// The messages with data that one call site received.
struct ReceivedData {
  std::uint64_t messages = 0, bytes = 0;
  std::uint64_t read_bytes = 0;     // in lines that the program read before it overwrote them
  Ps in_mpi = 0;                    // from arrival to the end of the call, summed over the messages
  double byte_time_until_read = 0;  // sum over these lines: bytes times the ps from the end of the call to the read
  double byte_time = 0;             // the same from the arrival on
};

// The part of a message in one cache line.
struct UnreadLine {
  Address begin = 0, end = 0;
  CallTimes::CallKey call;
  Ps arrived = 0, completed = 0;
};

class FirstReads {
 public:
  using CallKey = CallTimes::CallKey;

  explicit FirstReads(std::uint64_t line_bytes) : line_bytes_(line_bytes) {}

  // `call` has received the first `bytes` of a buffer. Lines with earlier data in these bytes have not been read.
  void add_message(const CallKey& call, const Buffer& buffer, std::uint64_t bytes, Ps arrived, Ps completed);
  bool has_unread() const { return !unread_.empty(); }
  // Removes and returns an unread line with a byte in this range, which the program reads or overwrites; nullopt if
  // there is none. If the program reads the line, record_read() follows.
  std::optional<UnreadLine> take_line(Address address, std::uint64_t bytes);
  void record_read(const UnreadLine& line, Ps now);
  // An MPI call reads all of a buffer.
  void record_read(const Buffer& buffer, Ps now);
  // Returns the data that a call site has received so far.
  ReceivedData received_by(const CallKey& call) const;

 private:
  std::uint64_t line_bytes_;
  std::map<Address, UnreadLine> unread_;  // by their first byte; they do not overlap
  std::map<CallKey, ReceivedData> received_;
};

}  // namespace nearfield::sim::replay
