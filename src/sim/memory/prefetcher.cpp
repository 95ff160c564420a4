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

bool is_before(const CacheArray::Way& a, const CacheArray::Way& b) {
  return a.block != b.block ? a.block < b.block : a.lane < b.lane;
}

}  // namespace

StreamFollower::StreamFollower(const Prefetcher& prefetcher, std::uint64_t line_bytes, std::uint64_t page_bytes,
                               Variants* variants)
    : streams_(set_of_streams(prefetcher, line_bytes), variants, true),
      line_shift_(std::countr_zero(line_bytes)),
      lines_per_page_(static_cast<std::int64_t>(std::max(page_bytes / line_bytes, std::uint64_t{1}))),
      distance_(prefetcher.distance_lines),
      level_(prefetcher.level) {}

std::optional<Address> StreamFollower::follow(Address address) {
  const auto here = streams_.locate(address);  // one set: the tag is the line's number, from 1
  if (const auto stream = streams_.find_tag(here)) return go_on(here, stream);
  if (is_followed(here)) return std::nullopt;
  const auto upward = start(here, up), downward = start(here, down);
  if (is_before(downward, upward)) streams_.touch(upward);  // of two that are equally old, the first one goes first
  return std::nullopt;
}

// Whether the last line of a stream is accessed again, as by the stores to it one after the other.
bool StreamFollower::is_followed(const CacheArray::SetAndTag& here) const {
  for (const auto direction : {up, down}) {
    const std::uint32_t next = direction == up ? here.tag + 1 : here.tag - 1;
    if (next == no_tag) continue;
    const auto stream = streams_.find_tag({here.set, next});
    if (stream && stream.flags() == direction) return true;
  }
  return false;
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

CacheArray::Way StreamFollower::start(const CacheArray::SetAndTag& here, Direction direction) {
  const auto stream = streams_.room(here);
  const std::uint32_t next = direction == up ? here.tag + 1 : here.tag - 1;
  streams_.fill({here.set, next}, stream, 0, direction);
  return stream;
}

}  // namespace nearfield::sim
