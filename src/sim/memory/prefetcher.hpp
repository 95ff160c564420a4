// Streams of lines that a core follows: two accesses to neighbouring lines that miss start one, and each further line
// of it asks for a line some way ahead. Up and down; strides of more than a line are not followed.
#pragma once

#include <optional>

#include "machine/machine.hpp"
#include "sim/memory/cache_array.hpp"

namespace nearfield::sim {

class StreamFollower {
 public:
  StreamFollower(const Prefetcher& prefetcher, std::uint64_t line_bytes);

  // The core accessed this line, and missed its nearest cache or used a prefetched line: what to fetch ahead, if
  // anything.
  std::optional<Address> follow(Address address);
  int level() const { return level_; }

 private:
  // A direction, as what is kept of the line that a stream expects.
  enum Direction : std::uint8_t { up = 1, down = 2 };
  std::optional<Address> go_on(const CacheArray::SetAndTag& here, const CacheArray::Way& stream);
  CacheArray::Way start(const CacheArray::SetAndTag& here, Direction direction);

  CacheArray streams_;  // by the line that each expects next: a set of these, least recently used
  int line_shift_;
  int distance_;
  int level_;
};

}  // namespace nearfield::sim
