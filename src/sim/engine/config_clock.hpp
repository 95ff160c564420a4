// The clock of a rank: one TimeVector per variant. A run simulates several variants of the NIC (each with its own
// placement policy) at once: all variants execute the same accesses and messages, and times are computed for every
// configuration, which is a variant at a memory speed. The first variant at the first speed decides the order of
// events.
#pragma once

#include <array>
#include <cstddef>
#include <memory>

#include "sim/engine/time_vector.hpp"

namespace nearfield::sim {

inline constexpr int max_variants = 8;

// An instant or a duration in all configurations. Both operands of an operation must have the same number of variants.
class ConfigClock {
 public:
  ConfigClock() {}
  explicit ConfigClock(int num_variants, Ps common_time = 0) : num_variants_(num_variants) {
    std::uninitialized_fill_n(times_by_variant_.data(), num_variants, TimeVector(common_time));
  }
  // Copies only the variants in use, since every event copies clocks, and most runs have one variant or four.
  ConfigClock(const ConfigClock& other) : num_variants_(other.num_variants_) {
    std::uninitialized_copy_n(other.times_by_variant_.data(), num_variants_, times_by_variant_.data());
  }
  ConfigClock& operator=(const ConfigClock& other) {
    num_variants_ = other.num_variants_;
    if (this != &other)
      std::uninitialized_copy_n(other.times_by_variant_.data(), num_variants_, times_by_variant_.data());
    return *this;
  }

  int num_variants() const { return num_variants_; }
  TimeVector& operator[](int variant) { return times_by_variant_[static_cast<std::size_t>(variant)]; }
  const TimeVector& operator[](int variant) const { return times_by_variant_[static_cast<std::size_t>(variant)]; }
  // Returns the clock of one variant.
  ConfigClock of_variant(int variant) const {
    ConfigClock single(1);
    single[0] = (*this)[variant];
    return single;
  }
  TimeVector* begin() { return times_by_variant_.data(); }
  TimeVector* end() { return times_by_variant_.data() + num_variants_; }
  const TimeVector* begin() const { return times_by_variant_.data(); }
  const TimeVector* end() const { return times_by_variant_.data() + num_variants_; }

  // Returns the time of the first variant at the first memory speed, which decides the order of events.
  Ps first() const { return times_by_variant_[0][0]; }

  ConfigClock& operator+=(const ConfigClock& other) {
    for (int v = 0; v < num_variants_; ++v) (*this)[v] += other[v];
    return *this;
  }
  ConfigClock& operator+=(Ps duration) {
    for (auto& times : *this) times += duration;
    return *this;
  }
  ConfigClock& operator-=(const ConfigClock& other) {
    for (int v = 0; v < num_variants_; ++v)
      for (int l = 0; l < num_memory_speeds; ++l) (*this)[v][l] -= other[v][l];
    return *this;
  }
  friend ConfigClock operator+(ConfigClock a, const ConfigClock& b) { return a += b; }
  friend ConfigClock operator+(ConfigClock a, Ps b) { return a += b; }
  friend ConfigClock operator-(ConfigClock a, const ConfigClock& b) { return a -= b; }
  friend bool operator==(const ConfigClock& a, const ConfigClock& b) {
    if (a.num_variants_ != b.num_variants_) return false;
    for (int v = 0; v < a.num_variants_; ++v)
      if (a[v] != b[v]) return false;
    return true;
  }

 private:
  union {
    std::array<TimeVector, max_variants> times_by_variant_;
  };
  int num_variants_ = 0;
};

inline ConfigClock later(const ConfigClock& a, const ConfigClock& b) {
  ConfigClock result = a;
  for (int v = 0; v < a.num_variants(); ++v) result[v] = later(a[v], b[v]);
  return result;
}

}  // namespace nearfield::sim
