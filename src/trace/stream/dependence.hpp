// Finds the load that returned the address of a later load, by comparing values. The hooks see each address before the
// program uses it, so they can read the value that a load returns. If the addresses of one code location repeatedly
// equal changing values of another one (a pointer, plus the offset of a member), or a fixed multiple of these values
// plus a fixed base (an index), then the loads of the first location depend on those of the second one.
//
// At most one dependence of a load is found: the first one. Values that pass through arithmetic other than `base +
// factor * value`, such as a hash, are not recognised, and then no dependence is reported.
//
// The code runs in hooks, so it needs no C++ runtime library.
#pragma once

#include <cstdint>

namespace nearfield::stream {

// The values of the last loads that may have returned an address or an index.
class RecentLoads {
 public:
  struct Load {
    std::uint64_t code = 0, value = 0;  // code: the code location of the load
  };
  static constexpr std::uint32_t capacity = 32;  // a power of two

  void add_load(std::uint64_t code, std::uint64_t value) { loads_[num_loads_++ % capacity] = {code, value}; }
  // Returns the n-th last load; n = 0 is the last one. Before there were that many loads, returns an empty one.
  const Load& nth_last(std::uint32_t n) const { return loads_[(num_loads_ - 1 - n) % capacity]; }
  // Returns the last load at a code location; nullptr if there is none among the recent loads.
  const Load* find_last(std::uint64_t code) const {
    for (std::uint32_t n = 0; n < capacity; ++n)
      if (nth_last(n).code == code) return &nth_last(n);
    return nullptr;
  }
  // Returns the number of loads before `load`, one of the recent ones.
  std::uint32_t position_of(const Load& load) const {
    const auto slot = static_cast<std::uint32_t>(&load - loads_);
    return num_loads_ - capacity + (slot - num_loads_) % capacity;
  }
  std::uint32_t num_loads() const { return num_loads_; }

 private:
  Load loads_[capacity];
  std::uint32_t num_loads_ = 0;
};

// The search for the load on which the loads of one code location depend.
class DependenceSearch {
 public:
  bool is_finished() const { return num_tests_ >= max_tests; }

  // Tests a load at the code location `code`; call it before the load is added to the recent ones. `pointers_only`: the
  // address was predicted from earlier ones, so it may agree by chance with the values of any other regular sequence,
  // and only a pointer proves a dependence. When a dependence is certain, returns the code location of the load on
  // which this one depends, once; otherwise 0.
  std::uint64_t test_load(std::uint64_t code, std::uint64_t address, const RecentLoads& loads, bool pointers_only) {
    if (is_finished() || (pointers_only && candidate_ && factor_ != 0)) return 0;
    ++num_tests_;
    const RecentLoads::Load* const previous_load = loads.find_last(code);
    const bool is_consecutive = !previous_load || loads.position_of(*previous_load) == last_tested_position_;
    last_tested_position_ = loads.num_loads();
    if (candidate_) {
      if (test_candidate(address, loads, is_consecutive)) {
        if (num_matches_ < required_matches) return 0;
        num_tests_ = max_tests;
        return candidate_;
      }
      if (++num_mismatches_ <= num_matches_ + max_mismatches) return 0;
      candidate_ = 0;
    }
    if (!find_pointer_candidate(address, loads) && !pointers_only) find_index_candidate(address, loads);
    return 0;
  }

 private:
  static constexpr std::uint32_t max_tests = 1 << 14, required_matches = 8, max_mismatches = 4;
  static constexpr std::uint64_t max_member_offset = 4096, min_pointer = 1 << 16;
  static constexpr std::int64_t max_factor = 1 << 16;
  static constexpr std::uint32_t num_samples = 4;

  // Returns whether the address follows from the candidate's last value. Counts only changed values, because a pointer
  // that never changes costs no time. Regular sequences agree by chance, so an index counts only if its difference to
  // the previous index has not occurred before, and if the address of the previous load at the same code location was
  // mispredicted as well.
  bool test_candidate(std::uint64_t address, const RecentLoads& loads, bool is_consecutive) {
    const RecentLoads::Load* const load = loads.find_last(candidate_);
    if (!load) return false;
    const std::uint64_t value = load->value, step = value - last_value_;
    const bool agrees =
        factor_ == 0 ? is_member_of(value, address) : address - static_cast<std::uint64_t>(factor_) * value == base_;
    if (!agrees) return false;
    if (step != 0 && (factor_ == 0 || (is_consecutive && !is_repeated_step(step)))) {
      counted_steps_[num_matches_ % required_matches] = step;
      ++num_matches_;
    }
    last_value_ = value;
    return true;
  }
  bool is_repeated_step(std::uint64_t step) const {
    for (std::uint32_t i = 0; i < num_matches_ && i < required_matches; ++i)
      if (counted_steps_[i] == step) return true;
    return false;
  }
  static bool is_member_of(std::uint64_t pointer, std::uint64_t address) {
    return pointer >= min_pointer && address - pointer + max_member_offset < 2 * max_member_offset;
  }
  void choose_candidate(const RecentLoads::Load& load, std::int64_t factor, std::uint64_t base) {
    candidate_ = load.code;
    factor_ = factor;
    base_ = base;
    last_value_ = load.value;
    num_matches_ = num_mismatches_ = 0;
  }
  bool find_pointer_candidate(std::uint64_t address, const RecentLoads& loads) {
    for (std::uint32_t n = 0; n < RecentLoads::capacity; ++n)
      if (is_member_of(loads.nth_last(n).value, address)) {
        choose_candidate(loads.nth_last(n), 0, 0);
        return true;
      }
    return false;
  }
  // Compares with the sample that the last call took: a factor follows from two addresses and two values.
  void find_index_candidate(std::uint64_t address, const RecentLoads& loads) {
    const auto step = static_cast<std::int64_t>(address - sample_address_);
    for (std::uint32_t i = 0; i < num_samples; ++i) {
      const RecentLoads::Load* const load = samples_[i].code ? loads.find_last(samples_[i].code) : nullptr;
      const auto change = load ? static_cast<std::int64_t>(load->value - samples_[i].value) : 0;
      if (change == 0 || change == INT64_MIN || step % change != 0) continue;
      const std::int64_t factor = step / change;
      if (factor == 0 || factor > max_factor || factor < -max_factor) continue;
      return choose_candidate(*load, factor, address - static_cast<std::uint64_t>(factor) * load->value);
    }
    sample_address_ = address;
    std::uint32_t num_taken = 0;
    for (std::uint32_t n = 0; n < RecentLoads::capacity && num_taken < num_samples; ++n) {
      bool is_sampled = loads.nth_last(n).code == 0;
      for (std::uint32_t i = 0; i < num_taken; ++i)
        is_sampled = is_sampled || samples_[i].code == loads.nth_last(n).code;
      if (!is_sampled) samples_[num_taken++] = loads.nth_last(n);
    }
  }

  std::uint64_t candidate_ = 0;  // code location; 0: none
  std::int64_t factor_ = 0;      // of an index; 0: the value is a pointer
  std::uint64_t base_ = 0, last_value_ = 0;
  std::uint64_t counted_steps_[required_matches] = {};  // differences of the values that counted
  std::uint32_t num_matches_ = 0, num_mismatches_ = 0, num_tests_ = 0;
  std::uint32_t last_tested_position_ = 0;  // number of loads before the last one that was tested
  std::uint64_t sample_address_ = 0;
  RecentLoads::Load samples_[num_samples];
};

}  // namespace nearfield::stream
