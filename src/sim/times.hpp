// Simulated time. One run carries up to four clocks, one per speed of memory (lanes): what a rank does is simulated
// once, when it does it is told four times. Which of two things happens first is decided by lane 0.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>

namespace nearfield::sim {

// Picoseconds, always a whole number, so that sums are exact and do not depend on their order (up to 2^53: 2.5 hours).
using Ps = double;

inline constexpr int lanes = 4;

inline Ps ps_from_ns(double ns) { return std::nearbyint(ns * 1e3); }

// The same instant or duration on every lane's clock.
struct alignas(16) Times {
  std::array<Ps, lanes> at{};

  Times() = default;
  explicit Times(Ps everywhere) { at.fill(everywhere); }

  Ps operator[](int lane) const { return at[static_cast<std::size_t>(lane)]; }
  Ps& operator[](int lane) { return at[static_cast<std::size_t>(lane)]; }
  Times& operator+=(const Times& other) {
    for (std::size_t l = 0; l < lanes; ++l) at[l] += other.at[l];
    return *this;
  }
  Times& operator+=(Ps everywhere) {
    for (auto& t : at) t += everywhere;
    return *this;
  }
  friend Times operator+(Times a, const Times& b) { return a += b; }
  friend Times operator+(Times a, Ps b) { return a += b; }
  friend bool operator==(const Times&, const Times&) = default;
};

inline Times later(const Times& a, const Times& b) {
  Times result;
  for (std::size_t l = 0; l < lanes; ++l) result.at[l] = a.at[l] > b.at[l] ? a.at[l] : b.at[l];
  return result;
}

}  // namespace nearfield::sim
