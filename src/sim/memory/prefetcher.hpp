// A stream prefetcher: two misses in neighbouring lines start a stream, and each further line of it prefetches a line
// some distance ahead, up to the end of the page, since the next physical page is unrelated. Streams go up or down;
// strides of more than a line are not detected.
#pragma once

#include <optional>

#include "machine/machine.hpp"
#include "sim/memory/cache_array.hpp"

namespace nearfield::sim {

class StreamPrefetcher {
 public:
  StreamPrefetcher(const Prefetcher& prefetcher, std::uint64_t line_bytes, std::uint64_t page_bytes,
                   Variants* variants = nullptr);

  // Must be called for each access that misses L1. Returns the line to prefetch, if any.
  std::optional<Address> on_miss(Address address);
  int level() const { return level_; }
  // Copies the streams that another one of the same machine has under a variant.
  void copy_variant(const StreamPrefetcher& other, int variant) { streams_.copy_variant(other.streams_, variant); }
  bool is_common() const { return streams_.locate_common(0).set != nullptr; }  // to all variants

 private:
  // A stream's direction, stored in the flags of the line that the stream expects.
  enum Direction : std::uint8_t { up = 1, down = 2 };
  std::optional<Address> advance(const CacheArray::SetAndTag& line, const CacheArray::Way& stream);
  bool in_one_page(std::int64_t line, std::int64_t other) const {
    return ((line ^ other) & ~(lines_per_page_ - 1)) == 0;
  }
  void start(const CacheArray::SetAndTag& line);

  CacheArray streams_;  // one set in recency order: each line is the one that a stream expects next
  int line_shift_;
  int ways_, way_groups_;        // of the set
  std::int64_t lines_per_page_;  // a power of two
  int distance_;
  int level_;
};

}  // namespace nearfield::sim
