// Measures, per call site, how long received data lies in a rank's memory before the program reads it.
//
// Each received message has two times, both in the first configuration: the arrival of its data, and the completion of
// its MPI call. Data that an eager protocol delivers is in memory of the library from its arrival on, and the library
// copies it into the program's buffer later; other data is written into the program's buffer directly. Each cache line
// of the buffer has a third time: that at which the program first reads a byte of the line, by a load or in a later MPI
// call that sends the byte. For data of collectives, the end of the call is used as the arrival, since the data arrives
// in many messages.
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
  Ps time_in_mpi = 0;               // from arrival to the end of the call, summed over the messages
  double byte_time_until_read = 0;  // sum over these lines: bytes times the ps from the end of the call to the read
  double byte_time = 0;             // the same from the arrival on
};

// The part of a message in one cache line.
struct UnreadLine {
  Address begin = 0, end = 0;
  CallTimes::CallKey call;
  Ps arrival_time = 0, completion_time = 0;
};

class FirstReads {
 public:
  using CallKey = CallTimes::CallKey;

  explicit FirstReads(std::uint64_t line_bytes) : line_bytes_(line_bytes) {}

  // Must be called when `call` has received the first `bytes` of a buffer. Unread lines in this range are dropped,
  // since the message has overwritten them.
  void add_message(const CallKey& call, const Buffer& buffer, std::uint64_t bytes, Ps arrival_time, Ps completion_time);
  bool has_unread_lines() const { return !unread_lines_.empty(); }
  // Removes and returns an unread line with a byte in this range, which the program reads or overwrites; nullopt if
  // there is none. If the program reads the line, record_read() follows.
  std::optional<UnreadLine> take_unread_line(Address address, std::uint64_t bytes);
  void record_read(const UnreadLine& line, Ps now);
  // Must be called when an MPI call reads all of a buffer.
  void record_read(const Buffer& buffer, Ps now);
  // Returns the data that a call site has received so far.
  ReceivedData received_by(const CallKey& call) const;

 private:
  std::uint64_t line_bytes_;
  std::map<Address, UnreadLine> unread_lines_;  // by their first byte; they do not overlap
  std::map<CallKey, ReceivedData> received_by_call_;
};

}  // namespace nearfield::sim::replay
