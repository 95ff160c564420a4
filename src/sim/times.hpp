// Simulated time. One run carries up to four clocks, one for each speed of memory: what a rank does is simulated once,
// and its timing is computed for all speeds. Which of two things happens first is decided by the first speed.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace nearfield::sim {

// Picoseconds, always a whole number, so that sums are exact and do not depend on their order (up to 2^53: 2.5 hours).
using Ps = double;

inline constexpr int speeds = 4;  // of memory, in one run

inline Ps ps_from_ns(double ns) { return std::nearbyint(ns * 1e3); }

// One instant or duration on the clocks of all memory speeds.
struct alignas(16) Times {
  std::array<Ps, speeds> at{};

  Times() = default;
  explicit Times(Ps everywhere) { at.fill(everywhere); }

  Ps operator[](int speed) const { return at[static_cast<std::size_t>(speed)]; }
  Ps& operator[](int speed) { return at[static_cast<std::size_t>(speed)]; }
  Times& operator+=(const Times& other);
  Times& operator+=(Ps everywhere);
  friend Times operator+(Times a, const Times& b) { return a += b; }
  friend Times operator+(Times a, Ps b) { return a += b; }
  friend bool operator==(const Times&, const Times&) = default;
};

#if defined(__SSE2__)
// By pairs and never one by one: a pair that is loaded right after its halves were stored has to wait for both.
inline __m128d pair(const Times& times, std::size_t first) { return _mm_load_pd(&times.at[first]); }
inline Times of_pairs(__m128d low, __m128d high) {
  Times result;
  _mm_store_pd(&result.at[0], low);
  _mm_store_pd(&result.at[2], high);
  return result;
}
inline Times& Times::operator+=(const Times& other) {
  return *this = of_pairs(_mm_add_pd(pair(*this, 0), pair(other, 0)), _mm_add_pd(pair(*this, 2), pair(other, 2)));
}
inline Times& Times::operator+=(Ps everywhere) {
  const __m128d both = _mm_set1_pd(everywhere);
  return *this = of_pairs(_mm_add_pd(pair(*this, 0), both), _mm_add_pd(pair(*this, 2), both));
}
inline Times later(const Times& a, const Times& b) {
  return of_pairs(_mm_max_pd(pair(a, 0), pair(b, 0)), _mm_max_pd(pair(a, 2), pair(b, 2)));
}
#else
inline Times& Times::operator+=(const Times& other) {
  for (std::size_t l = 0; l < speeds; ++l) at[l] += other.at[l];
  return *this;
}
inline Times& Times::operator+=(Ps everywhere) {
  for (auto& t : at) t += everywhere;
  return *this;
}
inline Times later(const Times& a, const Times& b) {
  Times result;
  for (std::size_t l = 0; l < speeds; ++l) result.at[l] = a.at[l] > b.at[l] ? a.at[l] : b.at[l];
  return result;
}
#endif

}  // namespace nearfield::sim
