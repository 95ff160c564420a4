// A stream prefetcher: two misses in neighboring lines start a stream, and each further miss in the stream prefetches
// the line that is a fixed distance ahead, unless that line lies beyond the end of the page, since the next physical
// page is unrelated. Streams go up or down; strides of more than a line are not detected. With PrefetchExtent::all, a
// starting stream prefetches all lines up to that distance.
#pragma once

#include <optional>

#include "machine/machine.hpp"
#include "sim/memory/cache_array.hpp"

namespace nearfield::sim {

class StreamPrefetcher {
 public:
  StreamPrefetcher(const Prefetcher& prefetcher, std::uint64_t line_bytes, std::uint64_t page_bytes,
                   Variants* variants = nullptr);

  // The line to prefetch, and the number of lines before it, `step_bytes` apart, that are to be prefetched first.
  struct PrefetchRequest {
    Address line;
    int num_lines_before;
    std::int64_t step_bytes;

    Address nth_line(int n) const { return line + static_cast<Address>(step_bytes * (n - num_lines_before)); }
  };
  // Must be called for each access that misses L1 and, if advances_on_use(), for the first use of a prefetched line.
  std::optional<PrefetchRequest> on_miss(Address address);
  bool advances_on_use() const { return fetches_all_at_start_; }
  int target_level() const { return target_level_; }
  // Copies the streams that another prefetcher of the same machine has under one variant.
  void copy_variant_from(const StreamPrefetcher& other, int variant) {
    streams_.copy_variant_from(other.streams_, variant);
  }
  bool is_common_to_all_variants() const { return streams_.locate_common(0).set != nullptr; }

 private:
  // A stream's direction. The flags of the line that a stream expects next hold the direction and, as
  // `has_filled_distance`, whether the stream has prefetched all lines up to its distance.
  enum Direction : std::uint8_t { up = 1, down = 2 };
  static constexpr std::uint8_t has_filled_distance = 4;
  std::optional<PrefetchRequest> advance_stream(const CacheArray::SetAndTag& line, const CacheArray::Way& stream);
  bool are_in_one_page(std::int64_t line, std::int64_t other) const {
    return ((line ^ other) & ~(lines_per_page_ - 1)) == 0;
  }
  void start_streams(const CacheArray::SetAndTag& line);

  CacheArray streams_;  // one set in recency order: each line is the one that a stream expects next
  int line_shift_;
  int num_ways_, num_way_groups_;  // of the set
  std::int64_t lines_per_page_;    // a power of two
  int distance_lines_;
  int target_level_;
  bool fetches_all_at_start_;
};

}  // namespace nearfield::sim
