// Streams of lines that a core follows: two accesses to neighbouring lines that miss start one, and each further line
// of it asks for a line some way ahead. Up and down; strides of more than a line are not followed.
#pragma once

#include <optional>
#include <vector>

#include "machine/machine.hpp"
#include "sim/memory/memory.hpp"

namespace nearfield::sim {

class StreamFollower {
 public:
  StreamFollower(const Prefetcher& prefetcher, std::uint64_t line_bytes);

  // The core accessed this line, and missed its nearest cache or used a prefetched line: what to fetch ahead, if
  // anything.
  std::optional<Address> follow(Address address);
  int level() const { return level_; }

 private:
  struct Stream {
    Address next = 0;  // line number expected
    int step = 0;      // 0: not used yet; else in lines
    std::uint64_t used = 0;
  };
  std::vector<Stream> streams_;
  std::uint64_t line_bytes_;
  std::uint64_t time_ = 0;
  int distance_;
  int level_;
};

}  // namespace nearfield::sim
