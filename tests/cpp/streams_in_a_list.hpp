// Follows streams as StreamFollower (src/sim/memory/prefetcher.hpp) does, with a plain list of places: the model
// that it is compared with. Lines have numbers here.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <list>
#include <optional>
#include <vector>

#include "machine/machine.hpp"

namespace nearfield::sim {

class StreamsInAList {
 public:
  StreamsInAList(const Prefetcher& prefetcher, std::int64_t lines_per_page)
      : places_(static_cast<std::size_t>(2 * prefetcher.streams)),
        lines_per_page_(lines_per_page),
        distance_(prefetcher.distance_lines) {
    for (std::size_t place = 0; place < places_.size(); ++place) ages_.push_back(place);
  }
  std::optional<std::int64_t> follow(std::int64_t line) {
    if (const auto place = first_that_expects(line)) {
      const std::int64_t direction = places_[*place].direction;
      ages_.remove(*place);
      places_[*place].expects = in_page_of(line, line + direction) ? line + direction : nothing;
      places_[*place].expects == nothing ? ages_.push_front(*place) : ages_.push_back(*place);
      while (const auto met = first_that_expects(line)) {
        places_[*met].expects = nothing;
        ages_.remove(*met);
        ages_.push_front(*met);
      }
      const std::int64_t ahead = line + direction * distance_;
      return ahead >= 0 && in_page_of(line, ahead) ? std::optional(ahead) : std::nullopt;
    }
    for (const std::int64_t direction : {1, -1})
      if (const auto place = first_that_expects(line + direction); place && places_[*place].direction == direction)
        return std::nullopt;
    const std::size_t oldest = ages_.front(), second = *std::next(ages_.begin());
    places_[oldest] = {line + 1, 1};
    places_[second] = {line > 0 ? line - 1 : nothing, -1};
    ages_.erase(ages_.begin(), std::next(ages_.begin(), 2));
    for (const std::size_t place : {std::min(oldest, second), std::max(oldest, second)}) ages_.push_back(place);
    return std::nullopt;
  }

 private:
  static constexpr std::int64_t nothing = -1;
  struct Place {
    std::int64_t expects = nothing, direction = 0;
  };
  std::optional<std::size_t> first_that_expects(std::int64_t line) const {
    for (std::size_t place = 0; place < places_.size(); ++place)
      if (line >= 0 && places_[place].expects == line) return place;
    return std::nullopt;
  }
  bool in_page_of(std::int64_t line, std::int64_t other) const {
    return other >= 0 && line / lines_per_page_ == other / lines_per_page_;
  }

  std::vector<Place> places_;
  std::list<std::size_t> ages_;  // places, the oldest first
  std::int64_t lines_per_page_, distance_;
};

}  // namespace nearfield::sim
