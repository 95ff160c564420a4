// Keeps what accesses of one core did in the caches until clocks are told of it. The caches' part of several accesses is
// simulated first, which needs no clock; then the clocks of each variant are told of all of them at once.
#pragma once

#include <cstddef>
#include <span>

#include "sim/memory/memory.hpp"

namespace nearfield::sim {

struct TimedStep {
  enum class What : std::uint8_t {
    hits,        // `count` accesses that hit the nearest cache, each of which takes `time`
    awaited,     // a hit of a line of the nearest cache that may still be on its way there
    missed,      // an access that missed the nearest cache, and hits of the same line after it: `count` together
    prefetched,  // a line was fetched ahead
    through,     // `count` stores through the nearest cache to one that has the line
    bypassed,    // an access past the caches
    writes,      // nothing but units that were written to memory
    nothing,     // the core issues nothing for this `time`
  };
  What what = What::hits;
  Access kind = Access::load;
  Found found{};        // where the line of a miss was
  unsigned bytes = 0;   // of each access
  unsigned writes = 0;  // units that were written to memory to make room
  Address address = 0;  // physical
  Ps time = 0;          // unless said otherwise, by which the computation beside each access is longer than issuing it
  Count count = 1;
};

// The steps that clocks were not told of yet.
class TimedSteps {
 public:
  static constexpr std::size_t most = 64;

  bool full() const { return count_ == most; }
  bool empty() const { return count_ == 0; }
  void add(const TimedStep& step) { steps_[count_++] = step; }
  // Hits that take equally long and follow one another are one step.
  void add_hits(Count count, Ps each) {
    if (count_ > 0 && steps_[count_ - 1].what == TimedStep::What::hits && steps_[count_ - 1].time == each)
      steps_[count_ - 1].count += count;
    else
      add({.what = TimedStep::What::hits, .time = each, .count = count});
  }
  std::span<const TimedStep> all() const { return {steps_.data(), count_}; }
  void clear() { count_ = 0; }

 private:
  std::array<TimedStep, most> steps_;
  std::size_t count_ = 0;
};

}  // namespace nearfield::sim
