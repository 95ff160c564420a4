// The clock of a rank: one Times per variant. A run simulates several variants of the NIC (one placement policy
// each) at once: all execute the same accesses and messages, and times are computed for every configuration, which is a
// variant at a memory speed. The first variant at the first speed decides the order of events.
#pragma once

#include <array>
#include <cstddef>
#include <memory>

#include "sim/times.hpp"

namespace nearfield::sim {

inline constexpr int max_variants = 8;

// An instant or a duration in all configurations. The operands of an operation have equally many variants.
class Clock {
 public:
  Clock() {}
  explicit Clock(int variants, Ps everywhere = 0) : variants_(variants) {
    std::uninitialized_fill_n(at_.data(), variants, Times(everywhere));
  }
  // Copies only the variants in use, since clocks are copied for every event, most with one variant or four.
  Clock(const Clock& other) : variants_(other.variants_) {
    std::uninitialized_copy_n(other.at_.data(), variants_, at_.data());
  }
  Clock& operator=(const Clock& other) {
    variants_ = other.variants_;
    if (this != &other) std::uninitialized_copy_n(other.at_.data(), variants_, at_.data());
    return *this;
  }

  int variants() const { return variants_; }
  Times& operator[](int variant) { return at_[static_cast<std::size_t>(variant)]; }
  const Times& operator[](int variant) const { return at_[static_cast<std::size_t>(variant)]; }
  // Returns the clock of one variant.
  Clock of(int variant) const {
    Clock single(1);
    single[0] = (*this)[variant];
    return single;
  }
  Times* begin() { return at_.data(); }
  Times* end() { return at_.data() + variants_; }
  const Times* begin() const { return at_.data(); }
  const Times* end() const { return at_.data() + variants_; }

  // Returns the time that decides the order of events.
  Ps first() const { return at_[0][0]; }

  Clock& operator+=(const Clock& other) {
    for (int v = 0; v < variants_; ++v) (*this)[v] += other[v];
    return *this;
  }
  Clock& operator+=(Ps everywhere) {
    for (auto& times : *this) times += everywhere;
    return *this;
  }
  Clock& operator-=(const Clock& other) {
    for (int v = 0; v < variants_; ++v)
      for (int l = 0; l < speeds; ++l) (*this)[v][l] -= other[v][l];
    return *this;
  }
  friend Clock operator+(Clock a, const Clock& b) { return a += b; }
  friend Clock operator+(Clock a, Ps b) { return a += b; }
  friend Clock operator-(Clock a, const Clock& b) { return a -= b; }
  friend bool operator==(const Clock& a, const Clock& b) {
    if (a.variants_ != b.variants_) return false;
    for (int v = 0; v < a.variants_; ++v)
      if (a[v] != b[v]) return false;
    return true;
  }

 private:
  union {
    std::array<Times, max_variants> at_;
  };
  int variants_ = 0;
};

inline Clock later(const Clock& a, const Clock& b) {
  Clock result = a;
  for (int v = 0; v < a.variants(); ++v) result[v] = later(a[v], b[v]);
  return result;
}

}  // namespace nearfield::sim
