// Simulated time. One run computes times for up to four memory speeds at once, one SIMD lane each. The first speed
// decides the order of events.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace nearfield::sim {

// Picoseconds, always a whole number, so that sums are exact and independent of their order (up to 2^53: 2.5 hours).
using Ps = double;

inline constexpr int num_memory_speeds = 4;  // the number of memory speeds that one run simulates

inline Ps ps_from_ns(double ns) { return std::nearbyint(ns * 1e3); }

// One instant or duration at all memory speeds.
struct alignas(32) TimeVector {
  std::array<Ps, num_memory_speeds> at{};

  TimeVector() = default;
  explicit TimeVector(Ps common_time) { at.fill(common_time); }

  Ps operator[](int speed) const { return at[static_cast<std::size_t>(speed)]; }
  Ps& operator[](int speed) { return at[static_cast<std::size_t>(speed)]; }
  TimeVector& operator+=(const TimeVector& other);
  TimeVector& operator+=(Ps duration);
  friend TimeVector operator+(TimeVector a, const TimeVector& b) { return a += b; }
  friend TimeVector operator+(TimeVector a, Ps b) { return a += b; }
};

#if defined(__AVX__)
inline __m256d lanes_of(const TimeVector& times) { return _mm256_load_pd(times.at.data()); }
inline TimeVector from_lanes(__m256d lanes) {
  TimeVector result;
  _mm256_store_pd(result.at.data(), lanes);
  return result;
}
inline TimeVector& TimeVector::operator+=(const TimeVector& other) {
  return *this = from_lanes(_mm256_add_pd(lanes_of(*this), lanes_of(other)));
}
inline TimeVector& TimeVector::operator+=(Ps duration) {
  return *this = from_lanes(_mm256_add_pd(lanes_of(*this), _mm256_set1_pd(duration)));
}
inline TimeVector later(const TimeVector& a, const TimeVector& b) {
  return from_lanes(_mm256_max_pd(lanes_of(a), lanes_of(b)));
}
inline TimeVector earlier(const TimeVector& a, const TimeVector& b) {
  return from_lanes(_mm256_min_pd(lanes_of(a), lanes_of(b)));
}
inline bool all_at_least(const TimeVector& a, const TimeVector& b) {
  return _mm256_movemask_pd(_mm256_cmp_pd(lanes_of(a), lanes_of(b), _CMP_GE_OQ)) == 0xF;
}
inline bool operator==(const TimeVector& a, const TimeVector& b) {
  return _mm256_movemask_pd(_mm256_cmp_pd(lanes_of(a), lanes_of(b), _CMP_EQ_OQ)) == 0xF;
}
#elif defined(__SSE2__)
// Accesses times in pairs, always: a load of a pair right after its halves were stored separately would defeat store
// forwarding.
inline __m128d load_pair(const TimeVector& times, std::size_t first_speed) {
  return _mm_load_pd(&times.at[first_speed]);
}
inline TimeVector from_pairs(__m128d first_two, __m128d last_two) {
  TimeVector result;
  _mm_store_pd(&result.at[0], first_two);
  _mm_store_pd(&result.at[2], last_two);
  return result;
}
inline TimeVector& TimeVector::operator+=(const TimeVector& other) {
  return *this = from_pairs(_mm_add_pd(load_pair(*this, 0), load_pair(other, 0)),
                            _mm_add_pd(load_pair(*this, 2), load_pair(other, 2)));
}
inline TimeVector& TimeVector::operator+=(Ps duration) {
  const __m128d durations = _mm_set1_pd(duration);
  return *this = from_pairs(_mm_add_pd(load_pair(*this, 0), durations), _mm_add_pd(load_pair(*this, 2), durations));
}
inline TimeVector later(const TimeVector& a, const TimeVector& b) {
  return from_pairs(_mm_max_pd(load_pair(a, 0), load_pair(b, 0)), _mm_max_pd(load_pair(a, 2), load_pair(b, 2)));
}
inline TimeVector earlier(const TimeVector& a, const TimeVector& b) {
  return from_pairs(_mm_min_pd(load_pair(a, 0), load_pair(b, 0)), _mm_min_pd(load_pair(a, 2), load_pair(b, 2)));
}
inline bool all_at_least(const TimeVector& a, const TimeVector& b) {
  return _mm_movemask_pd(_mm_and_pd(_mm_cmpge_pd(load_pair(a, 0), load_pair(b, 0)),
                                    _mm_cmpge_pd(load_pair(a, 2), load_pair(b, 2)))) == 3;
}
inline bool operator==(const TimeVector& a, const TimeVector& b) {
  return _mm_movemask_pd(_mm_and_pd(_mm_cmpeq_pd(load_pair(a, 0), load_pair(b, 0)),
                                    _mm_cmpeq_pd(load_pair(a, 2), load_pair(b, 2)))) == 3;
}
#else
inline TimeVector& TimeVector::operator+=(const TimeVector& other) {
  for (std::size_t l = 0; l < num_memory_speeds; ++l) at[l] += other.at[l];
  return *this;
}
inline TimeVector& TimeVector::operator+=(Ps duration) {
  for (auto& t : at) t += duration;
  return *this;
}
inline TimeVector later(const TimeVector& a, const TimeVector& b) {
  TimeVector result;
  for (std::size_t l = 0; l < num_memory_speeds; ++l) result.at[l] = a.at[l] > b.at[l] ? a.at[l] : b.at[l];
  return result;
}
inline TimeVector earlier(const TimeVector& a, const TimeVector& b) {
  TimeVector result;
  for (std::size_t l = 0; l < num_memory_speeds; ++l) result.at[l] = a.at[l] < b.at[l] ? a.at[l] : b.at[l];
  return result;
}
inline bool all_at_least(const TimeVector& a, const TimeVector& b) {
  bool result = true;
  for (std::size_t l = 0; l < num_memory_speeds; ++l) result &= a.at[l] >= b.at[l];
  return result;
}
inline bool operator==(const TimeVector& a, const TimeVector& b) { return a.at == b.at; }
#endif

}  // namespace nearfield::sim
