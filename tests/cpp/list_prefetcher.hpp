// Follows streams as StreamPrefetcher (src/sim/memory/prefetcher.hpp) does, with a plain list: the model that it is
// compared with. Lines are numbers.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <list>
#include <optional>
#include <vector>

#include "machine/machine.hpp"

namespace nearfield::sim {

class ListPrefetcher {
 public:
  ListPrefetcher(const Prefetcher& prefetcher, std::int64_t lines_per_page)
      : streams_(static_cast<std::size_t>(2 * prefetcher.streams)),
        lines_per_page_(lines_per_page),
        distance_(prefetcher.distance_lines) {
    for (std::size_t stream = 0; stream < streams_.size(); ++stream) ages_.push_back(stream);
  }
  std::optional<std::int64_t> on_miss(std::int64_t line) {
    if (const auto stream = first_that_expects(line)) {
      const std::int64_t direction = streams_[*stream].direction;
      ages_.remove(*stream);
      streams_[*stream].expects = in_page_of(line, line + direction) ? line + direction : nothing;
      streams_[*stream].expects == nothing ? ages_.push_front(*stream) : ages_.push_back(*stream);
      while (const auto met = first_that_expects(line)) {
        streams_[*met].expects = nothing;
        ages_.remove(*met);
        ages_.push_front(*met);
      }
      const std::int64_t target = line + direction * distance_;
      return target >= 0 && in_page_of(line, target) ? std::optional(target) : std::nullopt;
    }
    for (const std::int64_t direction : {1, -1})
      if (const auto stream = first_that_expects(line + direction); stream && streams_[*stream].direction == direction)
        return std::nullopt;
    const std::size_t oldest = ages_.front(), second = *std::next(ages_.begin());
    streams_[oldest] = {line + 1, 1};
    streams_[second] = {line > 0 ? line - 1 : nothing, -1};
    ages_.erase(ages_.begin(), std::next(ages_.begin(), 2));
    for (const std::size_t stream : {std::min(oldest, second), std::max(oldest, second)}) ages_.push_back(stream);
    return std::nullopt;
  }

 private:
  static constexpr std::int64_t nothing = -1;
  struct Stream {
    std::int64_t expects = nothing, direction = 0;
  };
  std::optional<std::size_t> first_that_expects(std::int64_t line) const {
    for (std::size_t stream = 0; stream < streams_.size(); ++stream)
      if (line >= 0 && streams_[stream].expects == line) return stream;
    return std::nullopt;
  }
  bool in_page_of(std::int64_t line, std::int64_t other) const {
    return other >= 0 && line / lines_per_page_ == other / lines_per_page_;
  }

  std::vector<Stream> streams_;
  std::list<std::size_t> ages_;  // indices of streams, the oldest first
  std::int64_t lines_per_page_, distance_;
};

}  // namespace nearfield::sim
