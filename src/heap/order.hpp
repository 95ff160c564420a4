// A receiver's wish that the sender of a message copies some of it (help.hpp).
//
// none -> being_written -> posted, by the receiver; posted -> taken -> finished, by the sender; posted or finished ->
// none, by the receiver, whose order it is until then.
#pragma once

#include <atomic>
#include <cstdint>

namespace nearfield::heap {

// Lies in a region's header; written by one receiver at a time and by the region's owner.
struct Order {
  enum State : std::uint32_t { none, being_written, posted, taken, finished };
  alignas(64) std::atomic<std::uint32_t> state;
  std::uint32_t streaming;
  std::int32_t reader;  // the receiver's process
  std::uint32_t chunks;
  std::uint64_t from, to;  // addresses: in the owner, in the receiver
  std::uint64_t bytes;
  alignas(64) std::atomic<std::uint32_t> claimed;  // chunks, by both ends
};

}  // namespace nearfield::heap
