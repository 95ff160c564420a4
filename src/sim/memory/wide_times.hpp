// The times at all memory speeds in one register of 256 bits. timing.cpp includes this file where AVX2 may be used, in
// a namespace of its own. There is no #pragma once, as in timing_kernel.hpp.

struct SimdTimes {
  __m256d lanes;
  NEARFIELD_ALWAYS_INLINE friend SimdTimes operator+(SimdTimes a, SimdTimes b) {
    return {_mm256_add_pd(a.lanes, b.lanes)};
  }
  NEARFIELD_ALWAYS_INLINE friend SimdTimes operator+(SimdTimes a, Ps b) {
    return {_mm256_add_pd(a.lanes, _mm256_set1_pd(b))};
  }
  NEARFIELD_ALWAYS_INLINE friend bool operator==(SimdTimes a, SimdTimes b) {
    return _mm256_movemask_pd(_mm256_cmp_pd(a.lanes, b.lanes, _CMP_EQ_OQ)) == 0xF;
  }
};
NEARFIELD_ALWAYS_INLINE SimdTimes later(SimdTimes a, SimdTimes b) { return {_mm256_max_pd(a.lanes, b.lanes)}; }
NEARFIELD_ALWAYS_INLINE bool all_at_least(SimdTimes a, SimdTimes b) {
  return _mm256_movemask_pd(_mm256_cmp_pd(a.lanes, b.lanes, _CMP_GE_OQ)) == 0xF;
}
// Loads two halves of 128 bits, as all other code stores them. A load of 256 bits right after two stores of 128 bits
// would defeat store forwarding.
NEARFIELD_ALWAYS_INLINE SimdTimes load_halves(const TimeVector& times) {
  const __m128d low = _mm_load_pd(times.at.data()), high = _mm_load_pd(times.at.data() + 2);
  return {_mm256_insertf128_pd(_mm256_castpd128_pd256(low), high, 1)};
}
NEARFIELD_ALWAYS_INLINE SimdTimes load_whole(const TimeVector& times) { return {_mm256_load_pd(times.at.data())}; }
NEARFIELD_ALWAYS_INLINE void store(SimdTimes from, TimeVector& to) { _mm256_store_pd(to.at.data(), from.lanes); }
NEARFIELD_ALWAYS_INLINE TimeVector to_times(SimdTimes from) {
  TimeVector result;
  store(from, result);
  return result;
}
