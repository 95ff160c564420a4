// Helpers of the micro-benchmarks: time, pinning, values hidden from the compiler, and pointer chains.
#pragma once

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>
#include <vector>

#include "base/clock.hpp"

namespace nearfield::calibrate {

inline double ns_per_tick() {
  static const double ns = 1 / measure_ticks_per_ns(5e-3);
  return ns;
}

// Pins the calling thread to a PU. Returns false if the process may not use the PU.
inline bool pin_thread_to(int pu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(pu, &set);
  return pthread_setaffinity_np(pthread_self(), sizeof set, &set) == 0;
}

// Hides a value from the optimiser: the compiler must have computed the value here, and can assume nothing about it
// afterwards.
template <class Value>
inline void hide_from_compiler(Value& value) {
  asm volatile("" : "+r"(value)::"memory");
}

// Links elements at a stride into one cyclic chain, in order or in random order. Returns the first element.
inline void** link_pointer_chain(std::byte* begin, std::size_t num_elements, std::size_t stride_bytes,
                                 bool is_sequential) {
  std::vector<std::size_t> order(num_elements);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::uint64_t random_state =
      88172645463325252ULL;  // xorshift64 by Marsaglia; a fixed seed: the same chain every time
  for (std::size_t i = num_elements; !is_sequential && i > 1; --i) {
    random_state ^= random_state << 13, random_state ^= random_state >> 7, random_state ^= random_state << 17;
    std::swap(order[i - 1], order[random_state % i]);
  }
  const auto element_at = [&](std::size_t i) { return reinterpret_cast<void**>(begin + order[i] * stride_bytes); };
  for (std::size_t i = 0; i < num_elements; ++i) *element_at(i) = element_at(i + 1 < num_elements ? i + 1 : 0);
  return element_at(0);
}

}  // namespace nearfield::calibrate
