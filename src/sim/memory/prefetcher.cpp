#include "sim/memory/prefetcher.hpp"

#include <algorithm>

namespace nearfield::sim {

StreamFollower::StreamFollower(const Prefetcher& prefetcher, std::uint64_t line_bytes)
    // A stream upward and one downward are tried for every first access.
    : streams_(static_cast<std::size_t>(2 * prefetcher.streams)),
      line_bytes_(line_bytes),
      distance_(prefetcher.distance_lines),
      level_(prefetcher.level) {}

std::optional<Address> StreamFollower::follow(Address address) {
  const Address line = address / line_bytes_;
  ++time_;
  for (auto& stream : streams_) {
    if (stream.step == 0 || stream.next != line) continue;
    stream.next = line + static_cast<Address>(stream.step);
    stream.used = time_;
    const Address ahead = line + static_cast<Address>(static_cast<std::int64_t>(stream.step) * distance_);
    if (stream.step < 0 && ahead > line) return std::nullopt;  // below address 0
    return ahead * line_bytes_;
  }
  for (const int step : {1, -1}) {
    const auto older = [](const Stream& a, const Stream& b) { return a.used < b.used; };
    auto& stream = *std::min_element(streams_.begin(), streams_.end(), older);
    stream = {line + static_cast<Address>(step), step, time_};
  }
  return std::nullopt;
}

}  // namespace nearfield::sim
