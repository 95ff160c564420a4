// The clock of a rank: one Times per variant. A run simulates several variants of the NIC (one placement policy each)
// at once: what ranks do is simulated once, and its timing is computed for every variant and every memory speed. Which
// of two things happens first is decided by the first speed of the first variant.
#pragma once

#include <array>
#include <cstddef>
#include <memory>

#include "sim/times.hpp"

namespace nearfield::sim {

inline constexpr int most_variants = 8;

// An instant or a duration on the clocks of all variants. Clocks that are put together have equally many variants.
class Clock {
 public:
  Clock() {}
  explicit Clock(int variants, Ps everywhere = 0) : variants_(variants) {
    std::uninitialized_fill_n(at_.data(), variants, Times(everywhere));
  }
  // Clocks are copied for every event, most with one variant or four: no more than is used.
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
    Clock its(1);
    its[0] = (*this)[variant];
    return its;
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
    std::array<Times, most_variants> at_;
  };
  int variants_ = 0;
};

inline Clock later(const Clock& a, const Clock& b) {
  Clock result = a;
  for (int v = 0; v < a.variants(); ++v) result[v] = later(a[v], b[v]);
  return result;
}

}  // namespace nearfield::sim
