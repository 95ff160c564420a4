#include "sim/memory/prefetcher.hpp"

namespace nearfield::sim {
namespace {

// Every first access starts a stream upward and one downward.
Cache set_of_streams(const Prefetcher& prefetcher, std::uint64_t line_bytes) {
  Cache cache;
  cache.line_bytes = static_cast<int>(line_bytes);
  cache.ways = 2 * prefetcher.streams;
  cache.size_bytes = line_bytes * static_cast<std::uint64_t>(cache.ways);
  return cache;
}

using Way = CacheArray::Way;

bool is_before(const Way& a, const Way& b) { return a.block != b.block ? a.block < b.block : a.lane < b.lane; }

}  // namespace

StreamFollower::StreamFollower(const Prefetcher& prefetcher, std::uint64_t line_bytes, std::uint64_t page_bytes,
                               Variants* variants)
    : streams_(set_of_streams(prefetcher, line_bytes), variants, true),
      line_shift_(std::countr_zero(line_bytes)),
      ways_(2 * prefetcher.streams),
      blocks_((ways_ + lanes_per_block - 1) / lanes_per_block),
      lines_per_page_(static_cast<std::int64_t>(std::max(page_bytes / line_bytes, std::uint64_t{1}))),
      distance_(prefetcher.distance_lines),
      level_(prefetcher.level) {}

std::optional<Address> StreamFollower::follow(Address address) {
  const auto here = streams_.locate(address);  // one set: the tag is the line's number, from 1
  Way above, below;
  for (auto* block = here.set; block < here.set + blocks_; ++block) {
    const auto first_with = [block](std::uint32_t tag, Way& way) {
      const auto found = lanes_with(*block, tag);
      if (found && !way) way = {block, static_cast<unsigned>(std::countr_zero(found))};
    };
    Way stream;
    first_with(here.tag, stream);
    if (stream) return go_on(here, stream);
    first_with(here.tag + 1, above);
    first_with(here.tag - 1, below);
  }
  // The last line of a stream may be accessed again, as by the stores to it one after the other.
  const bool is_followed = (above && above.flags() == up) || (below && below.flags() == down && here.tag - 1 != no_tag);
  if (!is_followed) start(here);
  return std::nullopt;
}

// Of two streams that meet at a line, one goes on.
std::optional<Address> StreamFollower::go_on(const CacheArray::SetAndTag& here, const CacheArray::Way& stream) {
  const std::int64_t step = stream.flags() == up ? 1 : -1, line = here.tag - 1;
  if (in_one_page(line, line + step))
    streams_.fill({here.set, here.tag + static_cast<std::uint32_t>(step)}, stream, 0, stream.flags());
  else
    streams_.remove(stream, 0);
  while (const auto met = streams_.find_tag(here)) streams_.remove(met, 0);
  const std::int64_t ahead = line + step * distance_;
  if (ahead < 0 || !in_one_page(line, ahead)) return std::nullopt;
  return static_cast<Address>(ahead) << line_shift_;
}

// Starts a stream upward in the place of the oldest one, and one downward in the place of the second oldest. Of these two
// the one in the first way counts as older.
void StreamFollower::start(const CacheArray::SetAndTag& here) {
  const auto upward = streams_.room(here);
  Way downward;
  for (auto* block = here.set; block < here.set + blocks_; ++block) {
    if (const auto found = lanes_of_age(*block, static_cast<std::uint8_t>(ways_ - 2)))
      downward = {block, static_cast<unsigned>(std::countr_zero(found))};
    grow_two_older(*block, ways_);
  }
  const auto put = [](const Way& way, std::uint32_t next, Direction direction, bool is_older) {
    way.block->tag[way.lane] = next;
    way.flags() = direction;
    way.block->age[way.lane] = is_older;
  };
  put(upward, here.tag + 1, up, is_before(upward, downward));
  put(downward, here.tag - 1, down, is_before(downward, upward));
}

}  // namespace nearfield::sim
