// Outcomes that MPI leaves to time: which message a receive from any source gets, what a test finds. One run simulates
// several policies and memory speeds, each with clocks of its own, but goes one course, that of the program that was
// observed. This counts on which clocks it would have been another.
#pragma once

#include <array>
#include <cstdint>

#include "sim/clock.hpp"

namespace nearfield::sim {

// A bit for each clock of a variant and speed.
using OnClocks = std::uint32_t;
static_assert(most_variants * speeds == 32);

// Returns the clocks on which `one` is before `other`.
inline OnClocks before(const Clock& one, const Clock& other) {
  OnClocks found = 0;
  for (int v = 0; v < one.variants(); ++v)
    for (int speed = 0; speed < speeds; ++speed)
      if (one[v][speed] < other[v][speed]) found |= OnClocks{1} << (v * speeds + speed);
  return found;
}

// Returns when something is over that began at `begin` and took until `end` on the first clock. On other clocks `end` does
// not tell: links and NICs serve messages there in the order of the first clock, so that none can come before another.
inline Clock estimate(const Clock& begin, const Clock& end) { return begin + (end.first() - begin.first()); }

struct Tally {
  std::uint64_t outcomes = 0;
  std::array<std::array<std::uint64_t, speeds>, most_variants> otherwise{};
  bool decided = false;  // the outcomes are those of a first clock (other_on_first)

  // Counts an outcome as another one on more clocks than those where it is so far.
  void add(OnClocks& so_far, OnClocks more) {
    if (decided && more & 1) return;  // estimates err there, and so on other clocks
    count(more & ~so_far, 1);
    so_far |= more;
  }
  // The first clock decided, and another one than the program had.
  void other_on_first() { ++otherwise[0][0]; }
  void not_other_on_first() { --otherwise[0][0]; }
  // Takes an outcome back.
  void take_back(OnClocks its) {
    --outcomes;
    count(its, std::uint64_t{0} - 1);
  }

 private:
  void count(OnClocks on, std::uint64_t by) {
    for (; on; on &= on - 1) {
      const auto clock = static_cast<unsigned>(__builtin_ctz(on));
      otherwise[clock / speeds][clock % speeds] += by;
    }
  }
};

}  // namespace nearfield::sim
