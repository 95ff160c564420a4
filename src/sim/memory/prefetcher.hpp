// Follows a core's streams of lines: two misses in neighbouring lines start a stream, and each further line of it asks
// for a line some distance ahead, up to the end of the page: what comes after it in memory is another page's. Streams go
// up or down; strides of more than a line are not followed.
#pragma once

#include <optional>

#include "machine/machine.hpp"
#include "sim/memory/cache_array.hpp"

namespace nearfield::sim {

class StreamFollower {
 public:
  StreamFollower(const Prefetcher& prefetcher, std::uint64_t line_bytes, std::uint64_t page_bytes,
                 Variants* variants = nullptr);

  // Call it for each access that misses the nearest cache. Returns the line to fetch ahead, if there is one.
  std::optional<Address> follow(Address address);
  int level() const { return level_; }
  // Copies the streams of another one, which is of the same machine, under a variant.
  void take(const StreamFollower& other, int variant) { streams_.take(other.streams_, variant); }
  bool is_common() const { return streams_.locate_common(0).set != nullptr; }  // to all variants

 private:
  // A stream's direction; it is stored in the flags of the line that the stream expects.
  enum Direction : std::uint8_t { up = 1, down = 2 };
  std::optional<Address> go_on(const CacheArray::SetAndTag& here, const CacheArray::Way& stream);
  bool in_one_page(std::int64_t line, std::int64_t other) const {
    return ((line ^ other) & ~(lines_per_page_ - 1)) == 0;
  }
  void start(const CacheArray::SetAndTag& here);

  CacheArray streams_;  // one set in order of use: each line is the one that a stream expects next
  int line_shift_;
  int ways_, blocks_;            // of the set
  std::int64_t lines_per_page_;  // a power of two
  int distance_;
  int level_;
};

}  // namespace nearfield::sim
