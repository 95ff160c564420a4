// The times at all memory speeds in one register of 256 bits. timing.cpp includes this file where AVX2 may be used, in a
// namespace of its own. There is no #pragma once, as in timing_kernel.hpp.

struct V {
  __m256d lanes;
  NEARFIELD_INNERMOST friend V operator+(V a, V b) { return {_mm256_add_pd(a.lanes, b.lanes)}; }
  NEARFIELD_INNERMOST friend V operator+(V a, Ps b) { return {_mm256_add_pd(a.lanes, _mm256_set1_pd(b))}; }
  NEARFIELD_INNERMOST friend bool operator==(V a, V b) {
    return _mm256_movemask_pd(_mm256_cmp_pd(a.lanes, b.lanes, _CMP_EQ_OQ)) == 0xF;
  }
};
NEARFIELD_INNERMOST V later(V a, V b) { return {_mm256_max_pd(a.lanes, b.lanes)}; }
NEARFIELD_INNERMOST bool all_at_least(V a, V b) {
  return _mm256_movemask_pd(_mm256_cmp_pd(a.lanes, b.lanes, _CMP_GE_OQ)) == 0xF;
}
// By halves, as all other code stores them: a whole that is loaded right after its halves were stored waits for both.
NEARFIELD_INNERMOST V of(const Times& times) {
  const __m128d low = _mm_load_pd(times.at.data()), high = _mm_load_pd(times.at.data() + 2);
  return {_mm256_insertf128_pd(_mm256_castpd128_pd256(low), high, 1)};
}
NEARFIELD_INNERMOST V whole(const Times& times) { return {_mm256_load_pd(times.at.data())}; }
NEARFIELD_INNERMOST void put(V from, Times& to) { _mm256_store_pd(to.at.data(), from.lanes); }
NEARFIELD_INNERMOST Times times(V from) {
  Times result;
  put(from, result);
  return result;
}
