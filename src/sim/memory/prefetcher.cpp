#include "sim/memory/prefetcher.hpp"

namespace nearfield::sim {
namespace {

// Returns the geometry of the table of streams: one set with two ways per stream, since a miss that continues no stream
// starts an upward and a downward stream.
Cache stream_table_geometry(const Prefetcher& prefetcher, std::uint64_t line_bytes) {
  Cache cache;
  cache.line_bytes = static_cast<int>(line_bytes);
  cache.ways = 2 * prefetcher.streams;
  cache.size_bytes = line_bytes * static_cast<std::uint64_t>(cache.ways);
  return cache;
}

using Way = CacheArray::Way;

bool is_lower_way(const Way& a, const Way& b) { return a.group != b.group ? a.group < b.group : a.index < b.index; }

}  // namespace

StreamPrefetcher::StreamPrefetcher(const Prefetcher& prefetcher, std::uint64_t line_bytes, std::uint64_t page_bytes,
                                   Variants* variants)
    : streams_(stream_table_geometry(prefetcher, line_bytes), variants, true),
      line_shift_(std::countr_zero(line_bytes)),
      num_ways_(2 * prefetcher.streams),
      num_way_groups_((num_ways_ + ways_per_group - 1) / ways_per_group),
      lines_per_page_(static_cast<std::int64_t>(std::max(page_bytes / line_bytes, std::uint64_t{1}))),
      distance_lines_(prefetcher.distance_lines),
      target_level_(prefetcher.level),
      fetches_all_at_start_(prefetcher.start == PrefetchExtent::all) {}

std::optional<StreamPrefetcher::PrefetchRequest> StreamPrefetcher::on_miss(Address address) {
  const auto line = streams_.locate(address);  // one set: the tag is the line's number, from 1
  Way above, below;
  for (auto* group = line.set; group < line.set + num_way_groups_; ++group) {
    const auto find_first_with = [group](std::uint32_t tag, Way& way) {
      const auto found = ways_with_tag(*group, tag);
      if (found && !way) way = {group, static_cast<unsigned>(std::countr_zero(found))};
    };
    Way stream;
    find_first_with(line.tag, stream);
    if (stream) return advance_stream(line, stream);
    find_first_with(line.tag + 1, above);
    find_first_with(line.tag - 1, below);
  }
  // Another access to the last line of a stream, for example by consecutive stores, starts no further stream.
  const bool is_followed =
      (above && (above.flags() & up)) || (below && (below.flags() & down) && line.tag - 1 != no_tag);
  if (!is_followed) start_streams(line);
  return std::nullopt;
}

// Advances a stream to the accessed line. Returns the lines to prefetch, if any. If two streams meet at a line, only
// one of them continues.
std::optional<StreamPrefetcher::PrefetchRequest> StreamPrefetcher::advance_stream(const CacheArray::SetAndTag& line,
                                                                                  const CacheArray::Way& stream) {
  const std::int64_t step = stream.flags() & up ? 1 : -1, number = line.tag - 1;
  const bool is_start = fetches_all_at_start_ && !(stream.flags() & has_filled_distance);
  const auto flags = static_cast<std::uint8_t>(stream.flags() | (is_start ? has_filled_distance : 0));
  if (are_in_one_page(number, number + step))
    streams_.fill({line.set, line.tag + static_cast<std::uint32_t>(step)}, stream, 0, flags);
  else
    streams_.remove(stream, 0);
  while (const auto other_stream = streams_.find_tag(line)) streams_.remove(other_stream, 0);
  std::int64_t ahead = distance_lines_;
  while (is_start && ahead > 1 && !are_in_one_page(number, number + step * ahead)) --ahead;
  const std::int64_t target = number + step * ahead;
  if (target < 0 || !are_in_one_page(number, target)) return std::nullopt;
  return PrefetchRequest{static_cast<Address>(target) << line_shift_, is_start ? static_cast<int>(ahead) - 1 : 0,
                         step * (std::int64_t{1} << line_shift_)};
}

// Starts an upward and a downward stream at a line, in the entries of the oldest and the second oldest stream. Of the
// two new streams, the one in the lower way counts as older.
void StreamPrefetcher::start_streams(const CacheArray::SetAndTag& line) {
  const auto upward = streams_.way_to_fill(line);
  Way downward;
  for (auto* group = line.set; group < line.set + num_way_groups_; ++group) {
    if (const auto found = ways_of_age(*group, static_cast<std::uint8_t>(num_ways_ - 2)))
      downward = {group, static_cast<unsigned>(std::countr_zero(found))};
    age_younger_ways_by_two(*group, num_ways_);
  }
  const auto put_stream = [](const Way& way, std::uint32_t next, Direction direction, bool is_older) {
    way.group->tag[way.index] = next;
    way.flags() = direction;
    way.group->age[way.index] = is_older;
  };
  put_stream(upward, line.tag + 1, up, is_lower_way(upward, downward));
  put_stream(downward, line.tag - 1, down, is_lower_way(downward, upward));
}

}  // namespace nearfield::sim
